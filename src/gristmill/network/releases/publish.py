"""Publishing a corpus: what goes is compared with the manifest, uploaded, and released.

Killed anywhere, the same command continues: objects that are there are not sent again, and a
release that was made is used. Only parts that the manifest names go, and no file beside them.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gristmill.errors import RecipeError, VerificationError
from gristmill.network.hub.dataset_facts import Kind
from gristmill.network.releases import layout, run_state
from gristmill.network.releases.cdn import CloudFront
from gristmill.network.releases.corpus_check import checked_corpus
from gristmill.network.releases.layout import Release, WithdrawnDocument
from gristmill.network.releases.publisher import OnUpload, Publisher, UploadSettings
from gristmill.network.releases.targets import open_target, target_folder
from gristmill.network.trust.keys import load_signers
from gristmill.network.withdrawal.withdraw import listed_documents
from gristmill.store.manifest import Manifest
from gristmill.store.parts import Part
from gristmill.store.proof import damaged
from gristmill.tables.schema import document_name, shard_number
from gristmill.user_input import one_or_more

ALL = "all"


@one_or_more("with_", "keys")
def publish(
    corpus: Path | str,
    target: Path | str,
    *,
    with_: Sequence[str] = (),
    keys: Sequence[Path | str] = (),
    passphrase: str | None = None,
    settings: UploadSettings | None = None,
    cdn: CloudFront | None = None,
    private: bool = False,
    on_upload: OnUpload = lambda *_: None,
    on_line: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Make a finished corpus the newest release of a target: s3://, gs://, az://, file:// or a
    folder; or a data set of the Hugging Face hub: hf://datasets/OWNER/NAME (docs/hub.md), which has
    its tokens, or with `with_=["text"]` its texts, and is `private` if it is new.

    Token shards, tokenizer, recipe, plan and counts go; `with_` names more folders of the corpus
    (text, verdicts, samples ...), or `all`, or `state`: all, and what the next run needs to go on
    from the store alone. `keys`: files of `gristmill release key`;
    `passphrase` opens them (default: the environment's GRISTMILL_KEY_PASSPHRASE). `on_line` gets
    what a person should know.

    Returns what the verb prints; `waiting` is the draft of `settings.draft`
    (network/trust/drafts.py): the release has no reader until it is signed. Raises
    VerificationError if the corpus is not finished or not as its manifest says, RecipeError, or
    MachineError (TargetChangedError: another publisher).
    """
    asked = settings or UploadSettings()
    if str(target).startswith("hf://"):
        others = bool(keys or cdn or asked.draft or asked.signed)
        return _on_hub(corpus, str(target), with_, others, private, on_line)
    root = Path(corpus)
    manifest, data = checked_corpus(root)
    state = run_state.needed_for_next_run(root, manifest) if run_state.STATE in with_ else None
    included = choose_names(manifest, with_, root)
    parts = whole_parts(manifest, included, root)
    signers = load_signers(keys, passphrase)
    if cdn is not None:
        cdn.check()
    _refuse_inside(target, root)
    opened = open_target(target)
    try:
        publisher = Publisher(opened, signers, asked, cdn)
        withdrawn = withdrawn_so_far(publisher.current, manifest, root)
        files = [(root / part.path, part.sha256, part.size) for part in parts]
        uploaded = publisher.upload([*files, *(state.files if state else ())], on_upload)
        listed = None if state is None else publisher.put_bytes(state.data)
        digest = hashlib.sha256(data).hexdigest()
        release = _find_equal(publisher.current, digest, included, listed)
        if release is not None:
            new = publisher.complete()
        else:
            new = True
            named = (listed, 0 if state is None else len(state.data))
            release = publisher.release(data, included, withdrawn=withdrawn, state=named)
        result = {
            **_facts(publisher, release),
            "new": new,
            "objects": uploaded.objects,
            "bytes": uploaded.bytes,
            "present": uploaded.present,
            "parts": len(parts),
            # Also where nothing changed: an earlier call may have been stopped before it.
            "invalidations": publisher.invalidate(),
        }
        if publisher.trust is not None:
            for line in publisher.trust.warnings():
                on_line(line)
    finally:
        opened.close()
    if any(part.path not in {entry.path for entry in parts} for part in manifest.parts):
        left = sorted(top_names(manifest) - set(included))
        on_line(f"not published: {', '.join(left)} (--with adds them)")
    return result


def _on_hub(
    corpus: Path | str,
    target: str,
    with_: Sequence[str],
    others: bool,
    private: bool,
    on_line: Callable[[str], None],
) -> dict[str, Any]:
    from gristmill.network.hub.hub import publish_to_hub

    if set(with_) - {"text"} or others:
        raise RecipeError(
            f"{target}: the hub takes tokens, or texts (--with text); keys, drafts and "
            "--cloudfront are for object stores"
        )
    kind: Kind = "text" if with_ else "tokens"
    return publish_to_hub(corpus, target, kind=kind, private=private, on_line=on_line)


def top_names(manifest: Manifest) -> set[str]:
    """Return the folders and files at the top of a corpus that hold its parts."""
    return {part.path.partition("/")[0] for part in manifest.parts}


def choose_names(manifest: Manifest, with_: Sequence[str], root: Path) -> list[str]:
    """Return the folders and files that go. Raises RecipeError if the corpus has none of a name."""
    tops = top_names(manifest)
    if ALL in with_ or run_state.STATE in with_:
        return sorted(tops)
    for name in with_:
        if name not in tops:
            raise RecipeError(
                f"--with {name}: {root} has no parts there; it has {', '.join(sorted(tops))}"
            )
    return sorted((tops & set(layout.ALWAYS)) | set(with_))


def _facts(publisher: Publisher, release: Release) -> dict[str, Any]:
    """Return what a release is, and how it is signed."""
    trust = publisher.trust
    facts = {
        "target": publisher.target.url,
        "manifest": release.manifest,
        "release": release.number,
        "sha256": hashlib.sha256(layout.encode(release)).hexdigest(),
        "included": release.included,
        "signed": trust is not None,
        "waiting": publisher.waiting,
    }
    if trust is not None:
        facts["root"] = hashlib.sha256(trust.root.to_bytes()).hexdigest()
    return facts


def whole_parts(manifest: Manifest, included: Sequence[str], root: Path) -> list[Part]:
    """Return the parts in these folders, compared with the manifest. Raises VerificationError if
    one is not as it says.
    """
    parts = [part for part in manifest.parts if layout.is_included(part.path, included)]
    if wrong := damaged(parts, root):
        raise VerificationError(f"{wrong[0]}. Nothing was published: run the recipe again")
    return parts


def withdrawn_documents(root: Path, manifest: Manifest) -> list[WithdrawnDocument]:
    """Return the documents that were withdrawn from a corpus, by number."""
    sources = {shard.number: shard.source for shard in manifest.raw_shards}
    return [
        WithdrawnDocument(document=number, source=sources.get(shard_number(number)))
        for number in sorted(listed_documents(root, manifest))
    ]


def withdrawn_so_far(
    current: tuple[Release, str] | None, manifest: Manifest, root: Path
) -> list[WithdrawnDocument]:
    """Return what the next release lists: the documents withdrawn from the corpus, and those that
    the release before lists of other corpora. Raises RecipeError for a document of this corpus that
    was withdrawn from the target alone.
    """
    withdrawn = withdrawn_documents(root, manifest)
    if current is None:
        return withdrawn
    here = set(withdrawn)
    sources = {shard.number: shard.source for shard in manifest.raw_shards}
    others = [document for document in current[0].withdrawn if document not in here]
    for document in others:
        if sources.get(shard_number(document.document)) == document.source:
            raise RecipeError(
                f"{root}: document {document_name(document.document)} was withdrawn from the "
                "target, and not from this corpus. Withdraw it here too "
                "(`gristmill release withdraw`), then publish"
            )
    return [*withdrawn, *others]


def _find_equal(
    current: tuple[Release, str] | None, manifest: str, included: list[str], state: str | None
) -> Release | None:
    """Return the newest release, if it is of this manifest, these folders and this state."""
    if current is None:
        return None
    wanted = (manifest, included, state)
    release = current[0]
    return release if (release.manifest, release.included, release.state) == wanted else None


def _refuse_inside(target: str | Path, root: Path) -> None:
    """Raise RecipeError where the target is the corpus, or in it."""
    if (folder := target_folder(target)) is not None:
        here, there = root.resolve(), folder.resolve()
        if here == there or here in there.parents:
            raise RecipeError(f"{folder}: lies in the corpus: name a folder elsewhere")
