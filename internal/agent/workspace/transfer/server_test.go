package transfer

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/workspace"
)

const ann = "0123456789abcdef0123456789abcdef"

func newServer(t *testing.T, l workspace.Limits) *Server {
	t.Helper()
	dir := t.TempDir()
	s, err := New(Config{Dir: filepath.Join(dir, "stores"), Leases: filepath.Join(dir, "leases"), Limits: l})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// call sends a message to the server as a node does.
func call(s *Server, node string, data []byte) (community.Reply, error) {
	provide := s.Provider(func(community.NodeID, community.MemberID) *Checkout { return nil })
	return provide(context.Background(), community.Signal{Data: data, Requester: []string{node}})
}

func message(t *testing.T, s *Server, h header, body []byte) []byte {
	t.Helper()
	data, err := s.codec.encode(h, body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// kept returns the bytes below a directory.
func kept(t *testing.T, dir string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			info, _ := d.Info()
			size += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

func manifest(files ...workspace.File) []byte { return workspace.Manifest{Files: files}.Encode() }

func regular(path string, size int64) workspace.File {
	return workspace.File{Path: path, Kind: workspace.Regular, Size: size, Hash: content.Sum([]byte(path))}
}

func TestHostileBorrowerIsRefusedWithReason(t *testing.T) {
	one := content.Sum([]byte("one"))
	for _, tt := range []struct {
		name string
		data func(s *Server) []byte
		want string
	}{
		{"nothing", raw(""), "header"},
		{"neither plain nor compressed", raw("{}\n"), "header"},
		{"no header", raw("P" + strings.Repeat("0", 1<<20)), "header"},
		{"header without end", raw("P{\"op\":\"put\"\n"), "header"},
		{"two headers", raw("P{\"op\":\"put\"}{}\n"), "header"},
		{"unknown field", raw("P{\"op\":\"put\",\"chmod\":4755}\n"), "header"},
		{"unknown operation", raw("P{\"op\":\"run\"}\n"), "no such operation"},
		{"no operation", raw("P{}\n"), "no such operation"},
		{"hash that is none", raw("P{\"op\":\"get\",\"hash\":\"../../etc/passwd\"}\n"), "header"},
		{"hash in capitals", raw("P{\"op\":\"get\",\"hash\":\"" + strings.ToUpper(one.String()) + "\"}\n"), "header"},
		{"negative offset", raw("P{\"op\":\"get\",\"offset\":-1}\n"), "a number in the header"},
		{"negative size", raw("P{\"op\":\"join\",\"size\":-1}\n"), "a number in the header"},
		{"more hashes than a message has", func(s *Server) []byte {
			return message(t, s, header{Op: opMissing, Hashes: make([]content.Hash, maxHashes+1)}, nil)
		}, "out of range"},
		{"no zstd", raw("Zabcdefgh"), "cannot be decompressed"},
		{"archive bomb", func(s *Server) []byte { return s.codec.enc.EncodeAll(make([]byte, 512<<20), []byte{packed}) }, "cannot be decompressed"},
		{"archive bomb of many frames", func(s *Server) []byte {
			return append([]byte{packed}, bytes.Repeat(s.codec.enc.EncodeAll(make([]byte, maxChunk), nil), 1000)...)
		}, "cannot be decompressed"},
		{"content without size", func(s *Server) []byte {
			return message(t, s, header{Op: opPut, Hashes: []content.Hash{one}}, []byte("one"))
		}, "middle of a content"},
		{"negative size of content", putOf(t, "one", -1, one), "middle of a content"},
		{"announced size of 4 GB", putOf(t, "one", 4<<30, one), "middle of a content"},
		{"pack that ends", putOf(t, "on", 3, one), "middle of a content"},
		{"wrong hash", putOf(t, "two", 3, one), "another content"},
		{"wrong hash after a right one", putOf(t, "onetwo", 3, one, content.Sum(nil)), "another content"},
		{"join of what is missing", func(s *Server) []byte {
			return message(t, s, header{Op: opJoin, Hash: content.Sum([]byte("other")), Size: 3, Hashes: []content.Hash{one}}, nil)
		}, "a chunk is missing"},
		{"join of nothing", func(s *Server) []byte { return message(t, s, header{Op: opJoin, Hash: one, Size: 3}, nil) }, "another content"},
		{"join of 10 GB", func(s *Server) []byte {
			return message(t, s, header{Op: opJoin, Hash: one, Size: 10e9, Hashes: []content.Hash{one}}, nil)
		}, "a file of 10000000000 bytes; at most"},
		{"join of more than announced", func(s *Server) []byte {
			putOne(t, s)
			return message(t, s, header{Op: opJoin, Hash: content.Sum([]byte("oneone")), Size: 3, Hashes: []content.Hash{one, one}}, nil)
		}, "over 3 bytes"},
		{"join to another hash", func(s *Server) []byte {
			putOne(t, s)
			return message(t, s, header{Op: opJoin, Hash: content.Sum(nil), Size: 6, Hashes: []content.Hash{one, one}}, nil)
		}, "another content"},
		{"manifest that was not sent", func(s *Server) []byte { return message(t, s, header{Op: opMissing, Hash: one}, nil) }, "send it first"},
		{"manifest that is none", checked(t, []byte("hello")), "its form is wrong"},
		{"path out of the tree", checked(t, manifest(regular("../x", 1))), `"../x": a name in it begins`},
		{"absolute path", checked(t, manifest(regular("/etc/passwd", 1))), `"/etc/passwd": it is absolute`},
		{"git hook", checked(t, manifest(regular(".git/hooks/pre-commit", 1))), "it is git's own"},
		{"names that differ by case", checked(t, manifest(regular("A", 1), regular("a", 1))), `"a": on some system it is the same as "A"`},
		{"link out of the tree", checked(t, manifest(workspace.File{Path: "x", Kind: workspace.Link, Link: "../../etc"})), "its target does not travel, or is outside"},
		{"no kind", checked(t, manifest(workspace.File{Path: "x"})), "a kind that cannot travel"},
		{"file of 10 GB", checked(t, manifest(regular("x", 10e9))), `"x" makes it more than 1048576 bytes`},
		{"too many files", checked(t, manifest(regular("1", 1), regular("2", 1), regular("3", 1), regular("4", 1), regular("5", 1))), "more than 4 files"},
		{"patch of an agent that is not lent", func(s *Server) []byte { return message(t, s, header{Op: opPatch, Member: "x"}, nil) }, "is lent"},
		{"content of another node", func(s *Server) []byte {
			if _, err := call(s, strings.Repeat("f", 32), putOf(t, "one", 3, one)(s)); err != nil {
				t.Fatal(err)
			}
			return message(t, s, header{Op: opGet, Hash: one}, nil)
		}, "no such content"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, workspace.Limits{Files: 4, Size: 1 << 20, FileSize: 1 << 20})
			reply, err := call(s, ann, tt.data(s))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("answer %q, %v; want an error with %q", reply.Data, err, tt.want)
			}
			if !errors.Is(err, community.ErrInvalid) && !errors.Is(err, community.ErrNotFound) {
				t.Errorf("error %v is none that the borrower reads", err)
			}
			if size := kept(t, s.cfg.Dir); size > 1<<10 {
				t.Errorf("%d bytes are kept", size)
			}
			if left, _ := os.ReadDir(s.cfg.Leases); len(left) > 0 {
				t.Errorf("workspaces are left: %v", left)
			}
		})
	}
}

func raw(data string) func(*Server) []byte { return func(*Server) []byte { return []byte(data) } }

// putOf returns a message that puts contents of a size each.
func putOf(t *testing.T, data string, size int, hashes ...content.Hash) func(*Server) []byte {
	return func(s *Server) []byte {
		return message(t, s, header{Op: opPut, Hashes: hashes, Sizes: slices.Repeat([]int{size}, len(hashes))}, []byte(data))
	}
}

func putOne(t *testing.T, s *Server) {
	t.Helper()
	if _, err := call(s, ann, putOf(t, "one", 3, content.Sum([]byte("one")))(s)); err != nil {
		t.Fatal(err)
	}
}

// checked sends a manifest and then asks the server what it lacks of it.
func checked(t *testing.T, text []byte) func(s *Server) []byte {
	return func(s *Server) []byte {
		h := content.Sum(text)
		if _, err := call(s, ann, putOf(t, string(text), len(text), h)(s)); err != nil {
			t.Fatal(err)
		}
		return message(t, s, header{Op: opMissing, Hash: h}, nil)
	}
}

func TestStoreOfBorrowerIsBounded(t *testing.T) {
	s := newServer(t, workspace.Limits{})
	s.cfg.Cache = maxStores * 2 * maxChunk
	for range 5 {
		data := make([]byte, maxChunk)
		rand.Read(data)
		if _, err := call(s, ann, putOf(t, string(data), len(data), content.Sum(data))(s)); err != nil {
			t.Fatal(err)
		}
		if size := kept(t, s.cfg.Dir); size > 2*maxChunk {
			t.Fatalf("%d bytes are kept; want at most %d", size, 2*maxChunk)
		}
	}
}

func TestServerIsBusyWhenAllStoresAreInUse(t *testing.T) {
	s := newServer(t, workspace.Limits{})
	hello := message(t, s, header{Op: opMissing}, nil)
	for i := range maxStores {
		if _, err := call(s, fmt.Sprintf("%032x", i), hello); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := call(s, ann, hello); !errors.Is(err, community.ErrBusy) {
		t.Fatalf("one more: %v; want busy", err)
	}
	s.stores["00000000000000000000000000000002"].used = s.stores["00000000000000000000000000000002"].used.Add(-2 * busyStore)
	if _, err := call(s, ann, hello); err != nil {
		t.Fatalf("when one is idle: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.cfg.Dir, "00000000000000000000000000000002")); err == nil {
		t.Error("the idle one is still there")
	}
}

func TestServerTakesNoNameOfDirectoryAsNode(t *testing.T) {
	s := newServer(t, workspace.Limits{})
	for _, node := range []string{"own", "../x", "", ann + "/member"} {
		if _, err := call(s, node, message(t, s, header{Op: opMissing}, nil)); !errors.Is(err, community.ErrInvalid) {
			t.Errorf("node %q: %v", node, err)
		}
	}
}

func TestNewRemovesWorkspacesOfEarlierProcess(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "leases", "1", "work", "closed")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(left), 0o500); err != nil { // an agent may have done that
		t.Fatal(err)
	}
	if _, err := New(Config{Dir: filepath.Join(dir, "stores"), Leases: filepath.Join(dir, "leases")}); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "leases")); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

func FuzzDecode(f *testing.F) {
	c, err := newCodec()
	if err != nil {
		f.Fatal(err)
	}
	for _, h := range []header{{Op: opPut}, {Op: opGet, Hash: content.Sum(nil), Offset: 5}} {
		data, _ := c.encode(h, bytes.Repeat([]byte("some text "), 20))
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, body, err := c.decode(data)
		if err != nil {
			return
		}
		if len(body) > max(len(data), maxUnpacked) {
			t.Errorf("a body of %d bytes from %d", len(body), len(data))
		}
		again, err := c.encode(h, body)
		if err != nil {
			t.Fatal(err)
		}
		if _, same, err := c.decode(again); err != nil || !bytes.Equal(same, body) {
			t.Errorf("encoded again: %v", err)
		}
	})
}
