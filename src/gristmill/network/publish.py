"""Publishing a corpus: what goes is compared with the manifest, uploaded, and released.

Killed anywhere, the same command continues: objects that are there are not sent again, and a
release that was made is used. Only parts that the manifest names go, and no file beside them.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gristmill.errors import RecipeError, VerificationError
from gristmill.network import layout, run_state
from gristmill.network.cdn import CloudFront
from gristmill.network.corpus_check import checked_corpus
from gristmill.network.keys import load_signers
from gristmill.network.layout import Release
from gristmill.network.publisher import OnUpload, Publisher, UploadSettings
from gristmill.network.targets import FolderTarget, Target, open_target
from gristmill.network.withdraw import withdrawn_documents
from gristmill.schema import ROW_BITS
from gristmill.store.manifest import Manifest
from gristmill.store.proof import damaged

ALL = "all"


def publish(
    corpus: Path | str,
    target: Path | str,
    *,
    with_: Sequence[str] = (),
    keys: Sequence[Path | str] = (),
    passphrase: str | None = None,
    settings: UploadSettings | None = None,
    cdn: CloudFront | None = None,
    on_upload: OnUpload = lambda *_: None,
    on_line: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Make a finished corpus the newest release of a target: s3://, gs://, az://, file:// or a
    folder.

    Token shards, tokenizer, recipe, plan and counts go; `with_` names more folders of the corpus
    (text, verdicts, samples ...), or `all`, or `state`: all, and what the next run needs to go on
    from the store alone. `keys`: files of `gristmill release key`;
    `passphrase` opens them (default: the environment's GRISTMILL_KEY_PASSPHRASE). `on_line` gets
    what a person should know.

    Returns what the verb prints. Raises VerificationError if the corpus is not finished or not as
    its manifest says, RecipeError, or MachineError (TargetChangedError: another publisher).
    """
    root = Path(corpus)
    manifest, data = checked_corpus(root)
    state = run_state.needed_for_next_run(root, manifest) if run_state.STATE in with_ else None
    included = included_of(manifest, with_, root)
    parts = [part for part in manifest.parts if layout.is_included(part.path, included)]
    if wrong := damaged(parts, root):
        raise VerificationError(f"{wrong[0]}. Nothing was published: run the recipe again")
    signers = load_signers(keys, passphrase)
    if cdn is not None:
        cdn.check()
    opened = open_target(target)
    try:
        _refuse_inside(opened, root)
        publisher = Publisher(opened, signers, settings, cdn)
        digest = hashlib.sha256(data).hexdigest()
        current = publisher.current
        withdrawn = withdrawn_documents(root, manifest)
        if current is not None:
            _refuse_withdrawn(current[0], withdrawn, manifest, root)
        result: dict[str, Any] = {"target": opened.url, "manifest": digest}
        files = [(root / part.path, part.sha256, part.size) for part in parts]
        uploaded = publisher.upload([*files, *(state.files if state else ())], on_upload)
        listed = None if state is None else publisher.put_bytes(state.data)
        same = current is not None and (
            (current[0].manifest, current[0].included) == (digest, sorted(included))
            and current[0].state == listed
        )
        if same and current is not None:
            release = current[0]
            behind = publisher.pointer is None or publisher.pointer.release != release.number
            unsigned = publisher.trust is not None and publisher.trust.signed_release() != (
                release.number,
                current[1],
            )
            if unsigned:
                publisher.sign(release)
            if behind:
                publisher.point(release)
            changed = behind or unsigned
        else:
            if current is not None:  # those of another corpus stay in the list
                withdrawn += [one for one in current[0].withdrawn if one not in withdrawn]
            named = (listed, 0 if state is None else len(state.data))
            release = publisher.release(data, included, withdrawn=withdrawn, state=named)
            changed = True
        result |= {
            "release": release.number,
            "sha256": hashlib.sha256(layout.encode(release)).hexdigest(),
            "new": changed,
            "objects": uploaded.objects,
            "bytes": uploaded.bytes,
            "present": uploaded.present,
            "parts": len(parts),
            "included": release.included,
            "signed": publisher.trust is not None,
        }
        if publisher.trust is not None:
            root_bytes = publisher.trust.root.to_bytes()
            result["root"] = hashlib.sha256(root_bytes).hexdigest()
        # Also where nothing changed: an earlier call may have been stopped before it.
        result["invalidations"] = publisher.invalidate()
    finally:
        opened.close()
    if any(part.path not in {found.path for found in parts} for part in manifest.parts):
        left = sorted(tops_of(manifest) - set(included))
        on_line(f"not published: {', '.join(left)} (--with adds them)")
    return result


def tops_of(manifest: Manifest) -> set[str]:
    """The folders and files at the top of a corpus that hold its parts."""
    return {part.path.partition("/")[0] for part in manifest.parts}


def included_of(manifest: Manifest, with_: Sequence[str], root: Path) -> list[str]:
    """The folders and files that go. Raises RecipeError if the corpus has none of a name."""
    tops = tops_of(manifest)
    if ALL in with_ or run_state.STATE in with_:
        return sorted(tops)
    for name in with_:
        if name not in tops:
            raise RecipeError(
                f"--with {name}: {root} has no parts there; it has {', '.join(sorted(tops))}"
            )
    return sorted((tops & set(layout.ALWAYS)) | set(with_))


def _refuse_withdrawn(
    current: Release, withdrawn: list[dict[str, Any]], manifest: Manifest, root: Path
) -> None:
    """Raise RecipeError where a corpus has documents that were withdrawn from the target."""
    sources = {shard.number: shard.source for shard in manifest.raw_shards}
    known = {one["document"] for one in withdrawn}
    for one in current.withdrawn:
        document = one.get("document", -1)
        shard, row = document >> ROW_BITS, document & ((1 << ROW_BITS) - 1)
        if document not in known and sources.get(shard) == one.get("source"):
            raise RecipeError(
                f"{root}: document {shard}:{row} was withdrawn from the target, and not from this "
                "corpus. Withdraw it here too (`gristmill release withdraw`), then publish"
            )


def _refuse_inside(target: Target, root: Path) -> None:
    """Raise RecipeError where the target is the corpus, in it or around it."""
    if isinstance(target, FolderTarget):
        here, there = root.resolve(), target.root.resolve()
        if here == there or here in there.parents:
            raise RecipeError(f"{target.root}: lies in the corpus: name a folder elsewhere")
