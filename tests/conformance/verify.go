// verify checks what causebook hands out with Go's own packages for notes and transparency logs, and nothing of
// causebook's. Standard input and the network are not used; the exit code is 0 where all of it holds.
//
//	verify checkpoint VKEY CHECKPOINT     the log's key signed it
//	verify bundle VKEY DIR                and each record of an unpacked bundle is in that log, which grew out of
//	                                      the older checkpoint where there is one
//	verify proof VKEY FILE                a tlog-proof that has its record as extra data
//	verify tiles VKEY DIR                 every entry of a log exported as tiles is in the tree of its checkpoint
//
// VKEY is a file. Built with Debian's golang-golang-x-mod-dev:
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go build verify.go
package main

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const height = 8

func main() {
	if len(os.Args) != 4 {
		fail(fmt.Errorf("usage: verify checkpoint|bundle|proof|tiles VKEY PATH"))
	}
	verifier, err := note.NewVerifier(strings.TrimSpace(read(os.Args[2])))
	fail(err)
	path := os.Args[3]
	switch os.Args[1] {
	case "checkpoint":
		tree := open(verifier, read(path))
		fmt.Printf("checkpoint of size %d holds\n", tree.N)
	case "bundle":
		bundle(verifier, path)
	case "proof":
		tree, index, proof, record := parse(verifier, read(path))
		fail(tlog.CheckRecord(proof, tree.N, tree.Hash, index, tlog.RecordHash(record)))
		fmt.Printf("index %d of %d holds\n", index, tree.N)
	case "tiles":
		tiles(verifier, path)
	default:
		fail(fmt.Errorf("no such command: %s", os.Args[1]))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(name string) string {
	content, err := os.ReadFile(name)
	fail(err)
	return string(content)
}

// open is the tree of a checkpoint that the verifier signed.
func open(verifier note.Verifier, raw string) tlog.Tree {
	signed, err := note.Open([]byte(raw), note.VerifierList(verifier))
	fail(err)
	lines := strings.Split(signed.Text, "\n")
	if len(lines) != 4 || lines[3] != "" || lines[0] != verifier.Name() {
		fail(fmt.Errorf("checkpoint: expected origin, size and root"))
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	fail(err)
	root, err := tlog.ParseHash(lines[2])
	fail(err)
	return tlog.Tree{N: size, Hash: root}
}

// parse takes a tlog-proof apart; record is its extra data, or nothing.
func parse(verifier note.Verifier, raw string) (tlog.Tree, int64, tlog.RecordProof, []byte) {
	head, checkpoint, found := strings.Cut(raw, "\n\n")
	lines := strings.Split(head, "\n")
	if !found || lines[0] != "c2sp.org/tlog-proof@v1" {
		fail(fmt.Errorf("proof: expected c2sp.org/tlog-proof@v1"))
	}
	var record []byte
	lines = lines[1:]
	if strings.HasPrefix(lines[0], "extra ") {
		var err error
		record, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[0], "extra "))
		fail(err)
		lines = lines[1:]
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[0], "index "), 10, 64)
	fail(err)
	return open(verifier, checkpoint), index, tlog.RecordProof(hashes(lines[1:])), record
}

func hashes(lines []string) []tlog.Hash {
	var found []tlog.Hash
	for _, line := range lines {
		hash, err := tlog.ParseHash(line)
		fail(err)
		found = append(found, hash)
	}
	return found
}

func bundle(verifier note.Verifier, dir string) {
	tree := open(verifier, read(filepath.Join(dir, "checkpoint")))
	records, err := filepath.Glob(filepath.Join(dir, "records", "*.record"))
	fail(err)
	if len(records) == 0 {
		fail(fmt.Errorf("no record in %s", dir))
	}
	for _, name := range records {
		to, index, proof, _ := parse(verifier, read(strings.TrimSuffix(name, ".record")+".tlog-proof"))
		if to != tree || fmt.Sprintf("%d.record", index) != filepath.Base(name) {
			fail(fmt.Errorf("%s: its proof is another's", name))
		}
		fail(tlog.CheckRecord(proof, tree.N, tree.Hash, index, tlog.RecordHash([]byte(read(name)))))
	}
	fmt.Printf("%d records are in the log of size %d\n", len(records), tree.N)
	if _, err := os.Stat(filepath.Join(dir, "consistency")); err == nil {
		head, checkpoint, _ := strings.Cut(read(filepath.Join(dir, "consistency")), "\n\n")
		old := open(verifier, read(filepath.Join(dir, "older-checkpoint")))
		lines := strings.Split(head, "\n")
		if lines[0] != fmt.Sprintf("old %d", old.N) || open(verifier, checkpoint) != tree {
			fail(fmt.Errorf("consistency: of other checkpoints"))
		}
		fail(tlog.CheckTree(tlog.TreeProof(hashes(lines[1:])), tree.N, tree.Hash, old.N, old.Hash))
		fmt.Printf("it grew out of the log of size %d\n", old.N)
	}
}

// folder reads tiles as C2SP tlog-tiles names them: without the height, which is 8.
type folder string

func (dir folder) Height() int { return height }

func (dir folder) SaveTiles([]tlog.Tile, [][]byte) {}

func (dir folder) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var all [][]byte
	for _, tile := range tiles {
		path := strings.TrimPrefix(tile.Path(), fmt.Sprintf("tile/%d/", height))
		content, err := os.ReadFile(filepath.Join(string(dir), "tile", path))
		if err != nil {
			return nil, err
		}
		all = append(all, content)
	}
	return all, nil
}

func tiles(verifier note.Verifier, dir string) {
	tree := open(verifier, read(filepath.Join(dir, "checkpoint")))
	reader := tlog.TileHashReader(tree, folder(dir))
	root, err := tlog.TreeHash(tree.N, reader)
	fail(err)
	if root != tree.Hash {
		fail(fmt.Errorf("tiles: another root"))
	}
	for first := int64(0); first < tree.N; first += 1 << height {
		width := tree.N - first
		if width > 1<<height {
			width = 1 << height
		}
		path := tlog.Tile{H: height, L: -1, N: first >> height, W: int(width)}.Path()
		path = strings.Replace(path, fmt.Sprintf("tile/%d/data/", height), "tile/entries/", 1)
		rest := []byte(read(filepath.Join(dir, path)))
		for index := first; index < first+width; index++ {
			if len(rest) < 2 || len(rest) < 2+int(binary.BigEndian.Uint16(rest)) {
				fail(fmt.Errorf("%s: ends early", path))
			}
			length := int(binary.BigEndian.Uint16(rest))
			record := rest[2 : 2+length]
			rest = rest[2+length:]
			proof, err := tlog.ProveRecord(tree.N, index, reader)
			fail(err)
			fail(tlog.CheckRecord(proof, tree.N, tree.Hash, index, tlog.RecordHash(record)))
		}
		if len(rest) != 0 {
			fail(fmt.Errorf("%s: more than its entries", path))
		}
	}
	fmt.Printf("%d entries are in the log\n", tree.N)
}
