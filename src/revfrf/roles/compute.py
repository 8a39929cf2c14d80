"""CC, the computing partner: holds the second strong share, and talks to KGC and CS only."""

from collections.abc import Mapping

from revfrf.crypto.dtpkc.keys import Parameters, PublicKey
from revfrf.errors import ProtocolError
from revfrf.messages.base import Done, Message
from revfrf.messages.fle_expan import OpenForest
from revfrf.messages.frf_predict import MaskedComparisons
from revfrf.messages.key_setup import EpochCertificate
from revfrf.names import CC, CS
from revfrf.protocols.common.epoch import public_half, write_parameters
from revfrf.protocols.common.request import check_request, enter_request
from revfrf.protocols.paper.ho_lt import answer_comparisons, read_counts
from revfrf.roles.party import PolicyParty


class ComputePartner(PolicyParty):
    """CC, in one forest.

    It opens masked comparisons for requests that it has checked, at most as many as a request can need.
    """

    forest: OpenForest | None = None
    _joint_keys: tuple[int, Mapping[str, PublicKey]] = (0, {})  # their epoch first

    def recall(self) -> None:
        """See `Party.recall`. Reads the forest that it serves."""
        super().recall()
        self.forest = self.store.read("forest", OpenForest)

    def handle(self, sender: str, message: Message) -> Message:
        """Answer KGC and CS."""
        match message:
            case OpenForest():
                return self._open(message)
            case MaskedComparisons():
                return self._compare(message)
        return super().handle(sender, message)

    def _open(self, forest: OpenForest) -> Done:
        """Serve a forest of this federation and epoch. Its trees and their depth bound every request."""
        self.check_forest(forest)
        if self.forest is None:
            self.store.write(forest=forest)
            self.forest = forest
        elif self.forest.forest != forest.forest:
            raise ProtocolError("a second forest", kind="forest")
        return Done()

    def _compare(self, message: MaskedComparisons) -> Message:
        """Answer with the keys of one epoch, even if the next one begins during the answer."""
        if self.forest is None:
            raise ProtocolError("there is no forest", kind="forest")
        certificate, share, request = self.certificate, self.identity.share, message.request
        check_request(self.identity, self.forest, self.book, request)
        own = share.parameters
        if (request.admission.epoch, write_parameters(own)) != (certificate.epoch, certificate.dtpkc):
            raise ProtocolError("a new epoch has begun", kind="epoch")
        counts = read_counts(message)
        keys = self._keys_with_cs(certificate, own)
        if not counts.keys() <= keys.keys():
            raise ProtocolError("a split whose owner is not in this epoch", kind="member")
        enter_request(self.book, self.policy, self.forest, request, message.depth, sum(counts.values()))
        return answer_comparisons(share, self.identity.signing_key, keys, counts, message, self.n_jobs)

    def _keys_with_cs(self, certificate: EpochCertificate, p: Parameters) -> Mapping[str, PublicKey]:
        """h_CS·h_τ of every participant of the epoch."""
        epoch, keys = self._joint_keys
        if epoch != certificate.epoch:
            public = {m.name: PublicKey(p, public_half(m)) for m in certificate.members if m.name != CC}
            keys = {name: public[CS] + public[name] for name in certificate.participants}
            self._joint_keys = certificate.epoch, keys
        return keys
