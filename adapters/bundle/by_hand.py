"""VERIFY.md: how somebody without causebook checks this very bundle, command by command.

Every command is run by a test, on a bundle that holds and on one that was changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...domain.heads import HEADS_TYPE
from ...domain.note import NoteKey


@dataclass(frozen=True)
class ByHand:
    """What the page is about. `log_vkey`: the name of the file with the log key's vkey."""

    ledger: str
    founding: str
    task: str
    size: int
    log_key: NoteKey
    log_vkey: str
    log_pem: str
    heads: bool
    evidence: bool
    consistency: bool

    @property
    def page(self) -> bytes:
        """The page, UTF-8."""
        parts = [
            _HEAD.format(
                task=self.task,
                ledger=self.ledger,
                founding=self.founding,
                size=self.size,
                vkey=self.log_key.vkey,
            ),
            _FILES,
            _OPENSSL,
            _GO.replace("@VKEY@", self.log_vkey),
        ]
        if self.consistency:
            parts.append(_GO_CONSISTENCY.replace("@VKEY@", self.log_vkey))
        parts.append(_PYTHON)
        if self.heads:
            parts.append(_HEADS.replace("@PEM@", self.log_pem).replace("@TYPE@", HEADS_TYPE))
        else:
            parts.append(_NO_HEADS)
        if self.evidence:
            parts.append(_EVIDENCE)
        parts.append(_REST)
        return "\n".join(parts).encode()


_HEAD: Final = """\
# Checking this bundle with tools of your own

It holds the records of task `{task}` and of the stream `ledger` of `{ledger}`, as of a checkpoint over {size}
records. Unpack it into an empty folder, and run what follows there, in bash.

What is in here was put in here by whoever sent it, this page included: hold it against the one that a
causebook of your own writes (`adapters/bundle/by_hand.py`). A signature says something only of a key that you
have from somewhere else. Before anything, hold against what you were given by another way:

- the digest of the founding record: `{founding}`
- the log's key: `{vkey}`

With causebook: `causebook check FILE.zip --trust TRUST` does all of this and more.
"""

_FILES: Final = """\
## Every file is there, as the manifest says (Python, its standard library)

```sh
python3 - <<'PY'
import hashlib, json, pathlib
for file in json.load(open("manifest.json"))["files"]:
    content = pathlib.Path(file["name"]).read_bytes()
    assert len(content) == file["length"], file["name"]
    assert hashlib.sha256(content).hexdigest() == file["sha256"], file["name"]
print("files: as the manifest says")
PY
```
"""

_OPENSSL: Final = """\
## Each record's signature (OpenSSL 3)

The signature is over `DSSEv1 36 application/vnd.causebook.event+json LENGTH LINE`. The key's name is its id:
the SHA-256 of its DER form.

```sh
( set -eu; work=$(mktemp -d); trap 'rm -r "$work"' EXIT
for record in records/*.record; do
  head -n 1 "$record" | tr -d '\\n' > "$work/line"
  read -r keyid signature < <(tail -n 1 "$record")
  printf 'DSSEv1 36 application/vnd.causebook.event+json %d ' "$(wc -c < "$work/line")" > "$work/signed"
  cat "$work/line" >> "$work/signed"
  printf %s "$signature" | base64 -d > "$work/signature"
  openssl pkey -pubin -in "keys/$keyid.pem" -outform DER | sha256sum | grep -q "^$keyid "
  openssl pkeyutl -verify -rawin -pubin -inkey "keys/$keyid.pem" \\
    -in "$work/signed" -sigfile "$work/signature" > /dev/null
done; echo "records: signatures hold" )
```
"""

_GO: Final = """\
## The checkpoint, and that each record is in the log (Go, golang.org/x/mod)

On Debian: `apt-get install golang-go golang-golang-x-mod-dev`.

```sh
( set -eu; work=$(mktemp -d); trap 'rm -r "$work"' EXIT; cat > "$work/main.go" <<'GO'
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func read(name string) string {
	content, err := os.ReadFile(name)
	must(err)
	return string(content)
}

func main() {
	verifier, err := note.NewVerifier(strings.TrimSpace(read("@VKEY@")))
	must(err)
	signed, err := note.Open([]byte(read("checkpoint")), note.VerifierList(verifier))
	must(err)
	lines := strings.Split(signed.Text, "\\n")
	size, err := strconv.ParseInt(lines[1], 10, 64)
	must(err)
	root, err := tlog.ParseHash(lines[2])
	must(err)
	records, err := filepath.Glob("records/*.record")
	must(err)
	for _, name := range records {
		head, _, _ := strings.Cut(read(strings.TrimSuffix(name, ".record")+".tlog-proof"), "\\n\\n")
		proof := strings.Split(head, "\\n")
		index, err := strconv.ParseInt(strings.TrimPrefix(proof[1], "index "), 10, 64)
		must(err)
		var path tlog.RecordProof
		for _, line := range proof[2:] {
			hash, err := tlog.ParseHash(line)
			must(err)
			path = append(path, hash)
		}
		must(tlog.CheckRecord(path, size, root, index, tlog.RecordHash([]byte(read(name)))))
	}
	fmt.Printf("checkpoint: signed by %s; %d records are in it\\n", verifier.Name(), len(records))
}
GO
GO111MODULE=off GOPATH=/usr/share/gocode go run "$work/main.go" )
```
"""

_GO_CONSISTENCY: Final = """\
## That the log grew out of the older checkpoint (Go)

```sh
( set -eu; work=$(mktemp -d); trap 'rm -r "$work"' EXIT; cat > "$work/main.go" <<'GO'
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func read(name string) string {
	content, err := os.ReadFile(name)
	must(err)
	return string(content)
}

func open(raw string) (int64, tlog.Hash) {
	verifier, err := note.NewVerifier(strings.TrimSpace(read("@VKEY@")))
	must(err)
	signed, err := note.Open([]byte(raw), note.VerifierList(verifier))
	must(err)
	lines := strings.Split(signed.Text, "\\n")
	size, err := strconv.ParseInt(lines[1], 10, 64)
	must(err)
	root, err := tlog.ParseHash(lines[2])
	must(err)
	return size, root
}

func main() {
	head, checkpoint, _ := strings.Cut(read("consistency"), "\\n\\n")
	var path tlog.TreeProof
	for _, line := range strings.Split(head, "\\n")[1:] {
		hash, err := tlog.ParseHash(line)
		must(err)
		path = append(path, hash)
	}
	old, oldRoot := open(read("older-checkpoint"))
	size, root := open(checkpoint)
	must(tlog.CheckTree(path, size, root, old, oldRoot))
	fmt.Printf("consistency: the log of %d records grew out of that of %d\\n", size, old)
}
GO
GO111MODULE=off GOPATH=/usr/share/gocode go run "$work/main.go" )
```
"""

_PYTHON: Final = """\
## Each record as a DSSE envelope (Python; `pip install securesystemslib cryptography`)

```sh
python3 - <<'PY'
import base64, pathlib
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey
records = sorted(pathlib.Path("records").glob("*.record"))
for record in records:
    line, signed, _ = record.read_bytes().split(b"\\n")
    keyid, signature = signed.decode().split(" ")
    public = load_pem_public_key(pathlib.Path(f"keys/{keyid}.pem").read_bytes())
    envelope = Envelope.from_dict({
        "payload": base64.b64encode(line).decode(),
        "payloadType": "application/vnd.causebook.event+json",
        "signatures": [{"keyid": keyid, "sig": signature}],
    })
    envelope.verify([SSlibKey.from_crypto(public, keyid)], 1)
print(f"records: {len(records)} envelopes hold")
PY
```
"""

_NO_HEADS: Final = """\
## Nobody states that this is all of the task

There is no `heads.json`: no log key that was enrolled below the checkpoint was at hand where this was
written.
"""

_HEADS: Final = """\
## What the log's key says the task came to (Python, securesystemslib)

```sh
python3 - <<'PY'
import hashlib, json, pathlib
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey
pem = pathlib.Path("@PEM@")
key = SSlibKey.from_crypto(load_pem_public_key(pem.read_bytes()), pem.stem)
envelope = Envelope.from_dict(json.load(open("heads.json")))
assert envelope.payload_type == "@TYPE@"
envelope.verify([key], 1)
stated = json.loads(envelope.payload)
size, root = open("checkpoint").read().split("\\n")[1:3]
assert (str(stated["size"]), stated["root"]) == (size, root)
found = {}
for record in pathlib.Path("records").glob("*.record"):
    raw = record.read_bytes()
    said = json.loads(raw.split(b"\\n")[0])
    place = (said["version"], hashlib.sha256(raw).hexdigest())
    found[said["stream"]] = max(place, found.get(said["stream"], place))
for head in stated["heads"]:
    assert found.pop(head["stream"]) == (head["version"], head["digest"]), head["stream"]
assert not found, found
print(f"heads: complete as of size {size}, says the log's key")
PY
```
"""

_EVIDENCE: Final = """\
## That the evidence is what was committed to (Python, its standard library)

```sh
python3 - <<'PY'
import hashlib, pathlib
salts = sorted(pathlib.Path("evidence").glob("*.salt"))
for salt in salts:
    body = salt.with_suffix(".bytes").read_bytes()
    assert hashlib.sha256(salt.read_bytes() + body).hexdigest() == salt.stem, salt
print(f"evidence: {len(salts)} items are what was committed to")
PY
```
"""

_REST: Final = """\
## What these do not say

That keys were enrolled for what they sign, that each stream is a chain from the founding on, and that the
panel decided by its rules: `causebook check` does. That nothing of this task is left out is the word of the
log's key, where it is given; only the whole log proves it: `causebook export --tiles DIR`, by whoever has it.
"""
