"""Git repositories of the user: files of a folder and of a commit, and commits made of trees.

Git is never run in a folder that a unit has written. It runs without hooks, without the configuration of
system and user, and writes with an index of its own.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from peira.errors import Invalid
from peira.sandbox.file_tree import TreeChanges, TreeFile

SAFE = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    "safe.directory=*",
    "gc.auto=0",
    "protocol.allow=never",
)
MODES: Mapping[str, Literal["file", "exec", "link"]] = {"100644": "file", "100755": "exec", "120000": "link"}
_MODE_OF = {kind: mode for mode, kind in MODES.items()}
AUTHOR = "peira"


class GitRepository:
    """The repository that a folder belongs to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, folder: Path) -> GitRepository | None:
        """The repository of a folder; None if it belongs to none, is ignored there, or git is missing."""
        found = cls(folder)
        try:
            inside = found._run(["rev-parse", "--is-inside-work-tree"], check=False)
        except Invalid:
            return None
        if inside.stdout.strip() != b"true":
            return None
        return None if not found._run(["check-ignore", "-q", "."], check=False).returncode else found

    def _run(
        self,
        words: Sequence[str],
        given: bytes = b"",
        index: str = "",
        check: bool = True,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git; Invalid with what it said if it failed."""
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            **{f"GIT_{who}_{what}": AUTHOR for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
            **({"GIT_INDEX_FILE": index} if index else {}),
        }
        options = [word for setting in SAFE for word in ("-c", setting)]
        try:
            done = subprocess.run(
                ["git", *options, "-C", str(self.folder), *words],
                input=given,
                env=env,
                capture_output=True,
                check=False,
            )
        except OSError as problem:
            raise Invalid(f"git: cannot be run: {problem.strerror or problem}") from None
        if check and done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise Invalid(f"git {words[0]}: {said[-1] if said else f'exit code {done.returncode}'}")
        return done

    def root(self) -> Path:
        """The folder of the whole repository."""
        return Path(os.fsdecode(self._run(["rev-parse", "--show-toplevel"]).stdout.rstrip(b"\n")))

    def listed(self) -> list[str]:
        """The files of the folder: those that are tracked or could be, not those that are ignored."""
        done = self._run(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        return list(dict.fromkeys(os.fsdecode(path) for path in done.stdout.split(b"\0") if path))

    def commit(self, ref: str) -> str:
        """The commit that a name stands for; Invalid if there is none."""
        done = self._run(["rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"], check=False)
        if done.returncode:
            raise Invalid(f"base: there is no commit {ref!r} in {self.folder}")
        return done.stdout.decode().strip()

    def head(self) -> str:
        """The commit of HEAD; "" if there is none yet."""
        done = self._run(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], check=False)
        return done.stdout.decode().strip()

    def tree(self, commit: str, keep: Callable[[bytes], str]) -> dict[str, TreeFile]:
        """The files of a commit, their contents handed to `keep`; other repositories in it are left out."""
        done = self._run(["ls-tree", "-r", "-z", "--full-tree", commit])
        entries = []
        for line in filter(None, done.stdout.split(b"\0")):
            facts, _, path = line.partition(b"\t")
            mode, kind, object_id = facts.decode().split()
            if kind == "blob" and mode in MODES:
                entries.append((os.fsdecode(path), MODES[mode], object_id))
        given = "".join(f"{object_id}\n" for _, _, object_id in entries).encode()
        contents = self._run(["cat-file", "--batch"], given).stdout
        found, at = dict[str, TreeFile](), 0
        for name, mode_kind, _ in entries:
            end = contents.index(b"\n", at)
            size = int(contents[at:end].split()[2])
            content = contents[end + 1 : end + 1 + size]
            found[name] = TreeFile(mode_kind, keep(content), size)
            at = end + size + 2
        return found

    def write_commit(
        self, ref: str, parent: str, changes: TreeChanges, content: Callable[[str], bytes], message: str
    ) -> str:
        """Write the changes of this folder on top of a commit ("": on nothing), and let `ref` stand for that.

        Returns the new commit. Neither the user's files nor the user's index are touched.
        """
        prefix = self._run(["rev-parse", "--show-prefix"]).stdout.rstrip(b"\n")
        with tempfile.TemporaryDirectory(prefix="peira-git-") as folder:
            wanted = list(dict.fromkeys(one.digest for one in changes.values() if one))
            for one in wanted:
                Path(folder, one).write_bytes(content(one))
            given = "".join(f"{folder}/{one}\n" for one in wanted).encode()
            done = self._run(["hash-object", "-w", "--no-filters", "--stdin-paths"], given)
            names = dict(zip(wanted, done.stdout.decode().split(), strict=True))
            index = f"{folder}/index"
            self._run(["read-tree", parent] if parent else ["read-tree", "--empty"], index=index)
            lines = []
            for path, file in changes.items():
                facts = f"{_MODE_OF[file.kind]} {names[file.digest]}" if file else f"0 {'0' * 40}"
                lines.append(facts.encode() + b"\t" + prefix + os.fsencode(path) + b"\0")
            self._run(["update-index", "-z", "--add", "--replace", "--index-info"], b"".join(lines), index)
            tree = self._run(["write-tree"], index=index).stdout.decode().strip()
        parents = ["-p", parent] if parent else []
        made = self._run(["commit-tree", tree, *parents, "-m", message]).stdout.decode().strip()
        self._run(["update-ref", "--no-deref", ref, made])
        return made
