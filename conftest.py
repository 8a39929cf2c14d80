"""What helpers of tests assert is explained like what tests assert."""

import pytest

pytest.register_assert_rewrite("tests")
