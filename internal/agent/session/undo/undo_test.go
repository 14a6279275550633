package undo_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/internal/agent/session/sqlite"
	"symbio/internal/agent/session/undo"
)

// bench is a directory, and a session in it that a test writes as an agent would.
type bench struct {
	*testing.T
	dir   string
	store *sqlite.Store
	log   *session.Log
}

func newBench(t *testing.T) *bench {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	b := &bench{T: t, dir: dir, store: store}
	b.log = session.NewJournal(b.store, "n").Create(session.Info{Dir: dir})
	return b
}

func (b *bench) check(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// exchange records an exchange in which do happens.
func (b *bench) exchange(do func()) {
	b.Helper()
	b.check(b.log.Commit(session.Entry{Kind: session.Task, Message: &llm.Message{Text: "do it\nwell"}}))
	do()
	b.check(b.log.Commit(session.Entry{Kind: session.End, Status: session.Done}))
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// put writes a file without a record, as another program does.
func (b *bench) put(name, content string) {
	b.Helper()
	b.check(errors.Join(os.MkdirAll(filepath.Dir(b.path(name)), 0o755), os.WriteFile(b.path(name), []byte(content), 0o644)))
}

func hash(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

// record records that a file is about to get this content.
func (b *bench) record(log *session.Log, name, content string) {
	b.Helper()
	e := &session.FileEdit{Path: b.path(name), Call: "c", After: hash([]byte(content))}
	if before, err := os.ReadFile(e.Path); err == nil {
		info, err := os.Stat(e.Path)
		b.check(err)
		e.Before, e.Mode, e.Content = hash(before), uint32(info.Mode().Perm()), before
	}
	b.check(log.Commit(session.Entry{Kind: session.Edit, Edit: e}))
}

// edit records a change and makes it.
func (b *bench) edit(name, content string) {
	b.Helper()
	b.record(b.log, name, content)
	b.put(name, content)
}

func (b *bench) plan(turn int) *undo.Plan {
	b.Helper()
	p, err := undo.New(b.Context(), b.store, b.log.Info().ID, turn)
	b.check(err)
	return p
}

// undo does what New plans, all of which must be possible.
func (b *bench) undo(turn int) *undo.Plan {
	b.Helper()
	p := b.plan(turn)
	_, err := p.Apply()
	b.check(err)
	for _, f := range p.Files {
		if !f.Done {
			b.Errorf("%s is not put back: %s", f.Path, f.Refused)
		}
	}
	return p
}

// has fails the test unless the directory has exactly these files.
func (b *bench) has(want map[string]string) {
	b.Helper()
	got := map[string]string{}
	b.check(filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			content, err := os.ReadFile(path)
			b.check(err)
			name, _ := filepath.Rel(b.dir, path)
			got[filepath.ToSlash(name)] = string(content)
		}
		return err
	}))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.Errorf("the directory has %q, want %q", got, want)
	}
}

// refused fails the test unless Apply leaves the only file of a plan and says why.
func (b *bench) refused(p *undo.Plan, why string) {
	b.Helper()
	_, err := p.Apply()
	b.check(err)
	if f := p.Files[0]; len(p.Files) != 1 || f.Done || !strings.Contains(f.Refused, why) {
		b.Errorf("the files are %+v, want one that is refused: %s", f, why)
	}
	if !strings.Contains(p.Text(), " is not put back: ") {
		b.Errorf("the text is %s", p.Text())
	}
}

func TestUndoPutsBackAllChangesOfAnExchange(t *testing.T) {
	b := newBench(t)
	b.put("a", "one\ntwo\n")
	b.check(os.Chmod(b.path("a"), 0o750))
	b.exchange(func() {
		b.edit("a", "one\n2\n")
		b.edit("sub/new", "n\n")
		b.edit("a", "one\n3\n")
		b.edit("empty", "")
	})
	p := b.plan(0)
	want := "Undo of exchange 1 and what came after it in " + b.dir + ":" +
		"\n\n--- a\n+++ a\n@@ -1,2 +1,2 @@\n one\n-3\n+two\n" +
		"\n\n--- sub/new\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-n\n" +
		"\n\n--- empty\n+++ /dev/null\n"
	if p.Text() != want {
		t.Errorf("the plan is\n%s, want\n%s", p.Text(), want)
	}
	b.has(map[string]string{"a": "one\n3\n", "sub/new": "n\n", "empty": ""})
	b.undo(0)
	b.has(map[string]string{"a": "one\ntwo\n"})
	if info, err := os.Stat(b.path("a")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if _, err := undo.New(t.Context(), b.store, b.log.Info().ID, 0); !errors.Is(err, undo.ErrNothing) {
		t.Errorf("a second undo: %v", err)
	}
}

func TestUndoGoesBackOneExchangeAfterTheOther(t *testing.T) {
	b := newBench(t)
	b.put("a", "0")
	b.exchange(func() { b.edit("a", "1"); b.edit("b", "1") })
	b.exchange(func() { b.edit("a", "2") })
	b.exchange(func() {})
	if p := b.undo(0); p.Turn != 2 {
		t.Errorf("the first undo is of exchange %d", p.Turn)
	}
	b.has(map[string]string{"a": "1", "b": "1"})
	if p := b.undo(0); p.Turn != 1 {
		t.Errorf("the second undo is of exchange %d", p.Turn)
	}
	b.has(map[string]string{"a": "0"})
	b.undo(undo.Redo)
	b.has(map[string]string{"a": "1", "b": "1"})
	b.undo(undo.Redo)
	b.has(map[string]string{"a": "0"})
	b.exchange(func() { b.edit("b", "3") })
	b.undo(1)
	b.has(map[string]string{"a": "0"})
}

func TestUndoOfAnEarlierExchangeTakesLaterOnesAlong(t *testing.T) {
	b := newBench(t)
	b.put("a", "0")
	b.exchange(func() { b.edit("a", "1") })
	b.exchange(func() { b.edit("a", "2"); b.edit("b", "2") })
	b.undo(1)
	b.has(map[string]string{"a": "0"})
	for _, turn := range []int{3} {
		if _, err := undo.New(t.Context(), b.store, b.log.Info().ID, turn); err == nil || !strings.Contains(err.Error(), "it has 2") {
			t.Errorf("exchange %d: %v", turn, err)
		}
	}
}

func TestUndoRefusesAFileThatIsNotAsItWasLeft(t *testing.T) {
	for why, change := range map[string]func(b *bench) error{
		"it was changed or":                           func(b *bench) error { return os.WriteFile(b.path("d/a"), []byte("mine"), 0o644) },
		"or removed since":                            func(b *bench) error { return os.Remove(b.path("d/a")) },
		"its directory was removed or replaced since": func(b *bench) error { return os.RemoveAll(b.path("d")) },
		"it is a directory,":                          func(b *bench) error { return errors.Join(os.Remove(b.path("d/a")), os.Mkdir(b.path("d/a"), 0o755)) },
		"a directory, a symbolic link or": func(b *bench) error {
			return errors.Join(os.Rename(b.path("d/a"), b.path("d/c")), os.Symlink("c", b.path("d/a")))
		},
		"symbolic link that was made since": func(b *bench) error {
			return errors.Join(os.Rename(b.path("d"), b.path("e")), os.Symlink("e", b.path("d")))
		},
		"path escapes from parent": func(b *bench) error {
			return errors.Join(os.Rename(b.path("d"), b.dir+"-out"), os.Symlink(b.dir+"-out", b.path("d")))
		},
		"its content was not kept":               func(b *bench) error { return b.store.Delete(b.Context(), b.log.Info().ID) },
		"changed it between two changes of the ": func(b *bench) error { b.put("d/a", "mine"); b.edit("d/a", "2"); return nil },
	} {
		t.Run(why, func(t *testing.T) {
			b := newBench(t)
			b.put("d/a", "0")
			keep := session.Entry{}
			b.exchange(func() {
				b.edit("d/a", "1")
				if strings.Contains(why, "not kept") {
					entries, err := b.store.Entries(t.Context(), b.log.Info().ID, 0)
					b.check(err)
					keep = entries[1]
				}
				if strings.Contains(why, "between") {
					b.check(change(b))
				}
			})
			switch {
			case keep.Edit != nil: // the same session without the content
				b.check(change(b))
				keep.Edit.Content = nil
				b.exchange(func() { b.check(b.log.Commit(keep)) })
			case !strings.Contains(why, "between"):
				b.check(change(b))
			}
			before := tree(t, b.dir)
			b.refused(b.plan(0), why)
			if after := tree(t, b.dir); after != before {
				t.Errorf("the directory is %s, was %s", after, before)
			}
		})
	}
}

// tree returns all that is below a directory, links not followed.
func tree(t *testing.T, dir string) string {
	var b strings.Builder
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		content, _ := os.ReadFile(path) // a directory has none
		fmt.Fprintf(&b, "%s %v %q\n", path, d.Type(), content)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestUndoLooksAgainBeforeItWrites(t *testing.T) {
	for name, change := range map[string]func(b *bench) error{
		"content": func(b *bench) error { b.put("d/a", "mine"); b.put("d/new", "mine"); return nil },
		"link": func(b *bench) error {
			return errors.Join(os.Rename(b.path("d"), b.path("e")), os.Symlink("e", b.path("d")))
		},
		"outside": func(b *bench) error {
			return errors.Join(os.Rename(b.path("d"), b.dir+"-out"), os.Symlink(b.dir+"-out", b.path("d")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.put("d/a", "0")
			b.exchange(func() { b.edit("d/a", "1"); b.edit("d/new", "1") })
			p := b.plan(0)
			b.check(change(b))
			before := tree(t, b.dir)
			_, err := p.Apply()
			b.check(err)
			for _, f := range p.Files {
				if f.Done || f.Refused == "" {
					t.Errorf("%s: %+v", f.Path, f)
				}
			}
			if after := tree(t, b.dir); after != before {
				t.Errorf("the directory is %s, was %s", after, before)
			}
		})
	}
}

func TestUndoKnowsAChangeThatDidNotHappen(t *testing.T) {
	b := newBench(t)
	b.put("a", "0")
	b.exchange(func() { b.edit("a", "1"); b.record(b.log, "a", "2"); b.edit("a", "3"); b.record(b.log, "a", "4") })
	b.undo(0)
	b.has(map[string]string{"a": "0"})
}

func TestUndoTakesChangesOfSubAgentsAlong(t *testing.T) {
	b := newBench(t)
	b.put("a", "0")
	b.exchange(func() { b.edit("a", "1") })
	b.exchange(func() {
		b.edit("a", "2")
		child := session.NewJournal(b.store, "n").Create(session.Info{Dir: b.dir, Parent: b.log.Info().ID, Root: b.log.Info().ID})
		b.record(child, "a", "3")
		b.put("a", "3")
		b.record(child, "b", "3")
		b.put("b", "3")
		b.check(child.Commit(session.Entry{Kind: session.End, Status: session.Done}))
		if _, err := undo.New(t.Context(), b.store, b.log.Info().ID, 0); !errors.Is(err, session.ErrInUse) {
			t.Errorf("undo of a session that works: %v", err)
		}
	})
	b.undo(0)
	b.has(map[string]string{"a": "1"})
}

func TestUndoOfALostTask(t *testing.T) {
	b := newBench(t)
	b.put("a", "0")
	b.log = session.NewJournal(b.store, "n").Create(session.Info{Dir: b.dir, Requester: "node b"})
	b.check(b.log.Commit(session.Entry{Kind: session.Task, Message: &llm.Message{Text: "do it"}}))
	b.edit("a", "1")
	if _, err := undo.New(t.Context(), b.store, b.log.Info().ID, 0); !errors.Is(err, session.ErrInUse) {
		t.Errorf("undo while it works: %v", err)
	}
	_, err := session.NewJournal(b.store, "n").Recover(t.Context())
	b.check(err)
	b.undo(0)
	b.has(map[string]string{"a": "0"})
	lost, err := b.store.Sessions(t.Context(), session.Filter{States: []session.State{session.Lost}})
	b.check(err)
	b.check(session.DeleteTree(t.Context(), b.store, lost[0], false))
}

func TestUndoOutsideOfTheDirectoryIsRefused(t *testing.T) {
	b := newBench(t)
	other := newBench(t)
	other.put("a", "0")
	name, err := filepath.Rel(b.dir, other.path("a"))
	b.check(err)
	b.exchange(func() { b.edit(name, "1") })
	b.refused(b.plan(0), "outside of the session's directory")
	other.has(map[string]string{"a": "1"})
}

func TestUndoIsRecordedBeforeItWrites(t *testing.T) {
	b := newBench(t)
	b.put("a", "0")
	b.exchange(func() { b.edit("a", "1") })
	store := &fullDisk{Store: b.store}
	p, err := undo.New(t.Context(), store, b.log.Info().ID, 0)
	b.check(err)
	if _, err := p.Apply(); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("without a record: %v", err)
	}
	b.has(map[string]string{"a": "1"})
}

// fullDisk is a store that cannot write.
type fullDisk struct{ *sqlite.Store }

func (fullDisk) Commit([]session.Write) error { return errors.New("disk full") }

func TestUndoShowsNoTextOfABinaryFile(t *testing.T) {
	b := newBench(t)
	b.put("bin", "a\x00b")
	b.put("long", strings.Repeat("x\n", 30000))
	b.exchange(func() { b.edit("bin", "text"); b.edit("long", strings.Repeat("y\n", 30000)) })
	if text := b.plan(0).Text(); !strings.Contains(text, "+++ bin\n[no text") || strings.Contains(text, "\x00") || !strings.Contains(text, " more bytes]\n") {
		t.Errorf("the plan is %s", text)
	}
	b.undo(0)
	b.has(map[string]string{"bin": "a\x00b", "long": strings.Repeat("x\n", 30000)})
}

func TestParseTurnReadsNumbersAndRedo(t *testing.T) {
	for text, want := range map[string]int{"": 0, "redo": undo.Redo, "1": 1, "12": 12} {
		if got, err := undo.ParseTurn(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "-1", "x", "1x"} {
		if got, err := undo.ParseTurn(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}
