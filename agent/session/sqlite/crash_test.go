package sqlite_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"symbio/agent/session"
	"symbio/agent/session/sqlite"
)

// crashTrial is a store that crashes, and what it was told to keep.
type crashTrial struct {
	t     *rapid.T
	root  string
	dir   string // of the present file; each crash begins another one
	store *sqlite.Store
	// commits are the texts of each commit that was begun, acknowledged how many of them returned.
	commits      [][]string
	acknowledged int
	crashes      int
}

func (x *crashTrial) path() string { return filepath.Join(x.dir, "sessions.db") }

func (x *crashTrial) must(err error) {
	if err != nil {
		x.t.Fatal(err)
	}
}

// open opens the file, expects no damage, and checks what it has.
func (x *crashTrial) open() {
	s, err := sqlite.Open(x.path())
	x.must(err)
	x.store = s
	x.check()
}

// commit adds entries of some sizes, so that commits have one page of the log or many.
func (x *crashTrial) commit(t *rapid.T) {
	var texts []string
	var entries []session.Entry
	for n := range rapid.IntRange(1, 3).Draw(t, "entries") {
		text := fmt.Sprintf("%d.%d ", len(x.commits), n)
		texts = append(texts, text)
		size := rapid.SampledFrom([]int{0, 100, 5000, 40_000}).Draw(t, "size")
		entries = append(entries, session.Entry{Kind: session.Skill, Text: text, Status: session.State(make([]byte, size))})
	}
	x.commits = append(x.commits, texts)
	x.must(x.store.Commit([]session.Write{{Info: session.Info{ID: "a", Root: "a"}, Entries: entries}}))
	x.acknowledged = len(x.commits)
}

// crash takes the file and the log as a disk may have them after a loss of power: all that was
// acknowledged, and any part of what was written later, whose last page may be torn. The file is that
// of before, which is sound while no checkpoint ran.
func (x *crashTrial) crash(t *rapid.T) {
	old := x.dir
	known := x.logSize()
	file, err := os.ReadFile(x.path())
	x.must(err)
	if rapid.Bool().Draw(t, "during a commit") {
		x.commit(t)
		x.acknowledged-- // the caller of Commit did not see its end
	}
	log, err := os.ReadFile(x.path() + "-wal")
	if os.IsNotExist(err) {
		log, err = nil, nil
	}
	x.must(err)
	if after, err := os.ReadFile(x.path()); err != nil || len(log) < known || string(after) != string(file) {
		x.must(err)
		file, known = after, len(log) // a checkpoint ran: it wrote the file only after the log was durable
		x.acknowledged = len(x.commits)
	}
	cut := rapid.IntRange(known, len(log)).Draw(t, "cut")
	log = log[:cut]
	if rapid.Bool().Draw(t, "torn page") {
		garbage := rapid.SliceOfN(rapid.Byte(), 1, 5000).Draw(t, "garbage")
		log = append(log, garbage...)
	}
	x.must(x.store.Close())
	x.crashes++
	x.dir = filepath.Join(x.root, fmt.Sprint(x.crashes))
	x.must(os.Mkdir(x.dir, 0o700))
	x.must(os.WriteFile(x.path(), file, 0o600))
	x.must(os.WriteFile(x.path()+"-wal", log, 0o600))
	x.must(os.RemoveAll(old))
	x.open()
}

func (x *crashTrial) logSize() int {
	info, err := os.Stat(x.path() + "-wal")
	if os.IsNotExist(err) {
		return 0
	}
	x.must(err)
	return int(info.Size())
}

// check expects whole commits, in order: all that were acknowledged, and perhaps some of the rest. What
// is found is kept from then on, the rest is lost for good.
func (x *crashTrial) check() {
	var got []string
	if all, err := x.store.Entries(x.t.Context(), "a", 0); err == nil {
		for _, e := range all {
			got = append(got, e.Text)
		}
	} else if x.acknowledged > 0 {
		x.t.Fatalf("the session is gone: %v", err)
	}
	kept := 0
	for _, texts := range x.commits {
		if len(got) == 0 {
			break
		}
		if len(got) < len(texts) {
			x.t.Fatalf("half of commit %d: %q", kept, got)
		}
		for n, text := range texts {
			if got[n] != text {
				x.t.Fatalf("commit %d has %q, want %q", kept, got[n], text)
			}
		}
		got = got[len(texts):]
		kept++
	}
	if len(got) > 0 || kept < x.acknowledged {
		x.t.Fatalf("%d commits of %d acknowledged, and then %q", kept, x.acknowledged, got)
	}
	x.commits, x.acknowledged = x.commits[:kept], kept
}

// The log is cut at any byte behind the last commit that was acknowledged, with garbage behind it.
func TestCrashKeepsWhatWasAcknowledged(t *testing.T) {
	memory := "/dev/shm" // thousands of commits need no disk here, where the crash is a copy
	if _, err := os.Stat(memory); err != nil {
		memory = ""
	}
	// A check takes a second, so there are few unless -rapid.checks asks for another number.
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := flag.Set("rapid.checks", "6"); err != nil {
			t.Fatal(err)
		}
		defer flag.Set("rapid.checks", checks.DefValue)
	}
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp(memory, "crash")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(root)
		x := &crashTrial{t: t, root: root, dir: filepath.Join(root, "0")}
		x.must(os.Mkdir(x.dir, 0o700))
		x.open()
		defer func() { x.must(x.store.Close()) }()
		t.Repeat(map[string]func(*rapid.T){
			"commit": x.commit,
			"crash":  x.crash,
			"open": func(*rapid.T) {
				x.must(x.store.Close())
				x.open()
			},
			"": func(*rapid.T) {},
		})
		x.check()
	})
}
