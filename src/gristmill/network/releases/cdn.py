"""Invalidation: a CDN is asked to forget its copies of the names that change, so that nobody waits
for the end of their time.

Amazon CloudFront, by boto3 and the credentials in the environment. The copies live for seconds
without it (layout.MAX_AGE): a failed invalidation delays readers, and misleads none.
"""

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from gristmill.errors import MachineError, RecipeError

AT_ONCE = 1000  # names of one request; CloudFront allows 3,000


class CloudFront(NamedTuple):
    """A distribution before a target."""

    distribution: str  # its id, E...
    path: str = ""  # where the target is below the distribution's address

    def check(self) -> None:
        """Raise MachineError if the package for it is missing."""
        try:
            import boto3  # noqa: F401
        except ImportError:
            raise MachineError(
                "CloudFront needs an extra: pip install 'gristmill[publish]'"
            ) from None

    def invalidate(self, names: Sequence[str]) -> list[str]:
        """Invalidate names of the target; returns the ids of the invalidations. Raises
        MachineError.
        """
        self.check()
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError

        prefix = f"/{self.path.strip('/')}/" if self.path.strip("/") else "/"
        made = []
        try:
            client = boto3.client("cloudfront", region_name="us-east-1")
            for start in range(0, len(names), AT_ONCE):
                items = [prefix + name for name in names[start : start + AT_ONCE]]
                answer = client.create_invalidation(
                    DistributionId=self.distribution,
                    InvalidationBatch={
                        "Paths": {"Quantity": len(items), "Items": items},
                        "CallerReference": secrets.token_hex(16),
                    },
                )
                made.append(str(answer["Invalidation"]["Id"]))
        except ClientError as error:
            word = error.response.get("Error", {}).get("Code", "refused")
            raise MachineError(self._said(str(word))) from error
        except (BotoCoreError, OSError, ValueError) as error:
            raise MachineError(self._said(type(error).__name__)) from error
        return made

    def _said(self, word: str) -> str:
        return (
            f"CloudFront {self.distribution}: the invalidation failed ({word}). What was "
            "written is whole; readers behind the CDN see it when their copies expire. Run the "
            "command again"
        )


def open_cloudfront(distribution: str | None, path: str | None) -> CloudFront | None:
    """Return the distribution that the command line names. Raises RecipeError."""
    if distribution is None:
        if path:
            raise RecipeError("--cloudfront-path: name the distribution too (--cloudfront ID)")
        return None
    if not distribution.isalnum():
        raise RecipeError(f"--cloudfront {distribution}: name the distribution's id, E...")
    return CloudFront(distribution, path or "")
