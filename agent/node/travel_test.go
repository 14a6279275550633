package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"

	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/workspace"
	"symbio/internal/agent/workspace/transfer"
	"symbio/security/identity"
)

// travelMessage is a message of the workspaces as it crosses the LAN: a header and a body, not compressed.
func travelMessage(t *testing.T, header map[string]any, body string) []byte {
	t.Helper()
	line, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "P%s\n%s", line, body)
}

// archiveBomb is a short message that would be 32 MiB.
func archiveBomb(t *testing.T) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return e.EncodeAll(make([]byte, 32<<20), []byte("Z"))
}

// What the tables of package transfer have of nodes that lie is refused with the same words over the transport of the product,
// on the side of the lender and on that of the borrower.
func TestLyingNodeIsRefusedOverTheWire(t *testing.T) {
	dir := t.TempDir()
	authority, err := identity.OpenLocalAuthority(filepath.Join(dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	alice, bob := travelNode(t, authority, dir, "alice"), travelNode(t, authority, dir, "bob")
	var lie atomic.Pointer[[]byte] // what bob answers; nil = he is honest
	honest := bob.server.Provider(func(community.NodeID, community.MemberID) *transfer.Checkout { return nil })
	alice.meet(t, bob, func(ctx context.Context, in community.Signal) (community.Reply, error) {
		if data := lie.Load(); data != nil {
			return community.Reply{Data: *data, ContentType: "application/octet-stream"}, nil
		}
		return honest(ctx, in)
	})
	bomb := archiveBomb(t)
	file := func(path string) workspace.File {
		return workspace.File{Path: path, Kind: workspace.Regular, Size: 1, Hash: content.Sum([]byte(path))}
	}
	large := file("large")
	large.Size = 10e9
	sent := func(files ...workspace.File) []byte {
		text := workspace.Manifest{Files: files}.Encode()
		if _, err := alice.call(t.Context(), bob, travelMessage(t, map[string]any{"op": "put", "hashes": []any{content.Sum(text)}, "sizes": []int{len(text)}}, string(text))); err != nil {
			t.Fatal(err)
		}
		return travelMessage(t, map[string]any{"op": "missing", "hash": content.Sum(text)}, "")
	}
	for _, c := range []struct {
		name    string
		message []byte
		want    string
	}{
		{"archive bomb", bomb, "cannot be decompressed"},
		{"message over the limit", bytes.Repeat([]byte("P"), 2<<20), "too large"},
		{"unknown field", travelMessage(t, map[string]any{"op": "put", "chmod": 4755}, ""), "the header of the message cannot be read"},
		{"unknown operation", travelMessage(t, map[string]any{"op": "run"}, ""), "there is no such operation"},
		{"wrong hash", travelMessage(t, map[string]any{"op": "put", "hashes": []any{content.Sum([]byte("one"))}, "sizes": []int{3}}, "two"), "another content"},
		{"path out of the tree", sent(file("../x")), `"../x": a name in it begins`},
		{"git hook", sent(file(".git/hooks/pre-commit")), "it is git's own"},
		{"link out of the tree", sent(workspace.File{Path: "x", Kind: workspace.Link, Link: "../../etc"}), "its target does not travel"},
		{"names that differ by case", sent(file("A"), file("a")), `"a": on some system it is the same as "A"`},
		{"file of 10 GB", sent(large), `"large" makes it more than`},
	} {
		if reply, err := alice.call(t.Context(), bob, c.message); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("borrower, %s: answer %q, %v; want an error with %q", c.name, reply, err, c.want)
		}
	}
	for _, c := range []struct {
		name  string
		reply []byte
		want  string
	}{
		{"archive bomb", bomb, "cannot be decompressed"},
		{"answer over the limit", bytes.Repeat([]byte("P"), 2<<20), "too large"},
		{"no header", []byte("P\n"), "the header of the message cannot be read"},
		{"patch of 10 GB", travelMessage(t, map[string]any{"hash": content.Sum(nil), "size": 10_000_000_000}, ""), "announces a patch of 10000000000 bytes"},
		{"patch without end", travelMessage(t, map[string]any{"hash": content.Sum([]byte("patch")), "size": 5}, "patch and more"), "another number of bytes"},
	} {
		lie.Store(&c.reply)
		client := alice.server.Client(func(ctx context.Context, data []byte) ([]byte, error) { return alice.call(ctx, bob, data) }, func(community.Progress) {})
		if _, err := client.Fetch(t.Context(), "member", workspace.Manifest{Files: []workspace.File{file("a")}}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("lender, %s: %v; want an error with %q", c.name, err, c.want)
		}
	}
}
