"""Pure maths on frozen values: no roles, no messages, no input or output."""
