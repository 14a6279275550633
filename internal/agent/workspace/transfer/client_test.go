package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/workspace"
)

// lender answers calls: reply is called with each, and the bytes that it returns are the answer.
func lender(t *testing.T, s *Server, reply func(h header) ([]byte, error)) *Client {
	return s.Client(func(_ context.Context, data []byte) ([]byte, error) {
		h, _, err := s.codec.decode(data)
		if err != nil {
			t.Error(err)
		}
		return reply(h)
	}, func(community.Progress) {})
}

// answers is a lender with one patch and its contents.
func answers(s *Server, text []byte, size int64, get func(h header) []byte) func(h header) ([]byte, error) {
	return func(h header) ([]byte, error) {
		switch {
		case h.Op == opPatch:
			return s.codec.encode(header{Hash: content.Sum(text), Size: size}, nil)
		case h.Op == opGet && h.Hash == content.Sum(text):
			return s.codec.encode(header{}, text[min(h.Offset, int64(len(text))):])
		}
		return s.codec.encode(header{}, get(h))
	}
}

func TestHostileLenderIsRefusedWithReason(t *testing.T) {
	base := workspace.Manifest{Files: []workspace.File{regular("a", 1), regular("b", 1)}}
	patch := func(changes ...workspace.File) []byte {
		return workspace.Patch{Base: base.Hash(), Changes: changes}.Encode()
	}
	same := func(name string) func(header) []byte { return func(header) []byte { return []byte(name) } }
	file := func(text string) workspace.File {
		return workspace.File{Path: "x", Kind: workspace.Regular, Size: int64(len(text)), Hash: content.Sum([]byte(text))}
	}
	many := []workspace.File{}
	for i := range 10_000 {
		many = append(many, regular(fmt.Sprintf("f%05d", i), 1))
	}
	for _, tt := range []struct {
		name  string
		reply func(s *Server) func(h header) ([]byte, error)
		want  string
	}{
		{"no answer", func(*Server) func(header) ([]byte, error) {
			return func(header) ([]byte, error) { return nil, nil }
		}, "header"},
		{"archive bomb", func(s *Server) func(header) ([]byte, error) {
			return func(header) ([]byte, error) {
				return s.codec.enc.EncodeAll(make([]byte, 256<<20), []byte{packed}), nil
			}
		}, "cannot be decompressed"},
		{"patch of 10 GB", func(s *Server) func(header) ([]byte, error) { return answers(s, patch(), 10e9, nil) }, "announces a patch of 10000000000 bytes"},
		{"patch that is shorter than announced", func(s *Server) func(header) ([]byte, error) {
			return answers(s, patch(), int64(len(patch()))+5, nil)
		}, "another number of bytes"},
		{"patch that is longer than announced", func(s *Server) func(header) ([]byte, error) {
			return answers(s, patch(), int64(len(patch()))-5, nil)
		}, "another number of bytes"},
		{"patch that is none", func(s *Server) func(header) ([]byte, error) { return answers(s, []byte("hello"), 5, nil) }, "its form is wrong"},
		{"patch of another base", of(workspace.Patch{Base: content.Sum(nil)}.Encode(), nil), "not the files that were sent"},
		{"path out of the directory", of(patch(regular("../x", 1)), same("x")), `"../x": a name in it begins`},
		{"absolute path", of(patch(regular("/x", 1)), same("x")), `"/x": it is absolute`},
		{"path through a file of the base", of(patch(regular("a/x", 1)), same("x")), `"a/x": on some system it is the same as "a"`},
		{"git hook", of(patch(regular(".git/hooks/post-merge", 1)), same("x")), "it is git's own"},
		{"git hook in other case", of(patch(regular(".GIT/hooks/post-merge", 1)), same("x")), "it is git's own"},
		{"link out of the directory", of(patch(workspace.File{Path: "l", Kind: workspace.Link, Link: "../../etc"}), nil), "its target does not travel, or is outside"},
		{"absolute link", of(patch(workspace.File{Path: "l", Kind: workspace.Link, Link: "/etc/passwd"}), nil), "its target is not a plain relative path"},
		{"set-uid or another kind", of(patch(workspace.File{Path: "x", Kind: "set-uid"}), nil), "a kind that cannot travel"},
		{"name that differs by case", of(patch(regular("A", 1)), same("x")), `"a": on some system it is the same as "A"`},
		{"name of two Unicode forms", of(patch(regular("e\u0301", 1), regular("\u00e9", 1)), same("x")), "on some system it is the same as"},
		{"deletion of what is not there", of(patch(workspace.File{Path: "gone", Kind: workspace.Deleted}), nil), `"gone": it deletes what was not sent`},
		{"ten thousand files", of(patch(many...), same("x")), "more than 1002 files"},
		{"file of 10 GB", of(patch(regular("x", 10e9)), same("x")), `"x" makes it more than 1048576 bytes`},
		{"content with another hash", of(patch(file("right")), same("wrong")), "another content"},
		{"content that never ends", of(patch(file("right")), same("right and more")), "another number of bytes"},
		{"content of nothing", of(patch(file("right")), same("")), "another number of bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, workspace.Limits{Files: 1000, Size: 1 << 20, FileSize: 1 << 20})
			_, err := lender(t, s, tt.reply(s)).Fetch(t.Context(), "x", base)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want an error with %q", err, tt.want)
			}
			if size := kept(t, s.cfg.Dir); size > 1<<10 {
				t.Errorf("%d bytes are kept", size)
			}
		})
	}
}

func of(text []byte, get func(header) []byte) func(s *Server) func(header) ([]byte, error) {
	return func(s *Server) func(header) ([]byte, error) { return answers(s, text, int64(len(text)), get) }
}

func TestPushSendsNothingThatTheWorkspaceDoesNotHave(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	snapshot, err := workspace.Take(t.Context(), dir, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		missing []content.Hash
		chunk   int
		want    string
	}{
		{"content that is another's", []content.Hash{content.Sum([]byte("key"))}, maxChunk, "that the workspace does not have"},
		{"content again and again", []content.Hash{content.Sum([]byte("a"))}, maxChunk, "that it was sent"},
		{"no room in messages", nil, 0, "too short messages"},
		{"negative room in messages", nil, -5, "too short messages"},
	} {
		s, calls := newServer(t, workspace.Limits{}), 0
		_, err := lender(t, s, func(h header) ([]byte, error) {
			if calls++; calls > 100 {
				return nil, errors.New("it does not end")
			}
			out := header{Chunk: tt.chunk}
			if h.Op == opMissing && h.Hash != (content.Hash{}) {
				out.Hashes = tt.missing
			}
			return s.codec.encode(out, nil)
		}).Push(t.Context(), snapshot)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want an error with %q", tt.name, err, tt.want)
		}
	}
}

func TestPushEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, maxChunk-i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	snapshot, err := workspace.Take(t.Context(), dir, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, workspace.Limits{})
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("the person stopped it")
	call := func(inner context.Context, data []byte) ([]byte, error) {
		if h, _, _ := s.codec.decode(data); h.Op == opPut {
			cancel(stopped)
			<-inner.Done()
			return nil, context.Cause(inner)
		}
		return s.Local(inner, data)
	}
	if _, err := s.Client(call, func(community.Progress) {}).Push(ctx, snapshot); !errors.Is(err, stopped) {
		t.Errorf("push: %v; want %v", err, stopped)
	}
}

func TestPushSendsNoFileThatChangedSinceSnapshot(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	if err := os.WriteFile(name, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	snapshot, err := workspace.Take(t.Context(), dir, workspace.Options{})
	if err == nil {
		err = os.WriteFile(name, []byte("key!"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, workspace.Limits{})
	call := func(ctx context.Context, data []byte) ([]byte, error) {
		if _, body, err := s.codec.decode(data); err != nil || strings.Contains(string(body), "key!") {
			t.Errorf("a call has %q, %v", body, err)
		}
		return s.Local(ctx, data)
	}
	if _, err := s.Client(call, func(community.Progress) {}).Push(t.Context(), snapshot); !errors.Is(err, workspace.ErrChanged) {
		t.Errorf("push: %v; want %v", err, workspace.ErrChanged)
	}
}
