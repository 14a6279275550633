package sqlite_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/internal/agent/session/sqlite"
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
		kind := rapid.SampledFrom([]session.Kind{session.Skill, session.Request, session.Answer}).Draw(t, "kind")
		entries = append(entries, session.Entry{Kind: kind, Text: text, Message: &llm.Message{}, Usage: &llm.Usage{Input: 1}, Status: session.State(strings.Repeat("x", size))})
	}
	x.commits = append(x.commits, texts)
	x.must(x.store.Commit([]session.Write{{Info: session.Info{ID: "a", Root: "a"}, Entries: entries}}))
	x.acknowledged = len(x.commits)
}

// checkpoint writes the log back to the file, as SQLite does by itself after a thousand pages. The next commit
// begins at the start of the log again, over the old commits.
func (x *crashTrial) checkpoint(*rapid.T) { exec(x.t, x.path(), "PRAGMA wal_checkpoint(PASSIVE)") }

// bill expects that the bill has the calls among the entries, each once: those that were answered, and the others.
func (x *crashTrial) bill(*rapid.T) {
	all, err := x.store.Entries(x.t.Context(), "a", 0)
	if !errors.Is(err, session.ErrNotFound) {
		x.must(err)
	}
	want := session.BillRow{}
	for _, e := range all {
		switch {
		case e.Kind == session.Request:
			want.Calls++
			want.Estimated++
		case e.Kind == session.Answer && want.Estimated > 0:
			want.Estimated--
			want.Input++
		}
	}
	want.Unpriced = want.Calls
	got, err := x.store.Bill(x.t.Context(), session.BillQuery{})
	x.must(err)
	if d := cmp.Diff(want, session.MergeBills(append(got, session.BillRow{}), nil)[0]); d != "" {
		x.t.Fatalf("the bill of %d entries (-want +got):\n%s", len(all), d)
	}
}

// disk is the contents of the files.
type disk struct{ file, log []byte }

func (x *crashTrial) disk() (d disk) {
	var err error
	d.file, err = os.ReadFile(x.path())
	x.must(err)
	if d.log, err = os.ReadFile(x.path() + "-wal"); !os.IsNotExist(err) {
		x.must(err)
	}
	return d
}

// logHeader is the length of the log's header. SQLite waits for the disk after it has written it.
const logHeader = 32

// crash takes the file and the log as a disk may have them after a loss of power: all that the disk was waited
// for, and any sectors of what was written later, in any order, the last of them torn.
func (x *crashTrial) crash(t *rapid.T) {
	before := x.disk()
	during := rapid.SampledFrom([]string{"rest", "commit", "commit", "checkpoint", "bill"}).Draw(t, "during")
	switch during {
	case "commit":
		x.commit(t)
		x.acknowledged-- // the caller of Commit did not see its end
	case "checkpoint":
		x.checkpoint(t)
	case "bill":
		x.bill(t)
	}
	after := x.disk()
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "sectors"), 0))
	switch header := min(logHeader, len(after.log)); {
	case !bytes.Equal(before.file, after.file):
		// A checkpoint ran. It begins when the log is durable, and the log stays until the file is.
		x.acknowledged = len(x.commits)
		after.file = mix(random, before.file, after.file)
	case bytes.HasPrefix(before.log, after.log[:header]):
		after.log = mix(random, before.log, after.log) // the commit went on in the log
	case rapid.Bool().Draw(t, "torn header"):
		// The commit begins the log again, and only its header was written.
		after.log = append(mix(random, before.log[:min(header, len(before.log))], after.log[:header]), before.log[min(header, len(before.log)):]...)
	default:
		after.log = append(bytes.Clone(after.log[:header]), mix(random, before.log[min(header, len(before.log)):], after.log[header:])...)
	}
	if len(after.log) > len(before.log) || during == "rest" {
		after.log = append(after.log, garbage(random, random.IntN(5000))...)
	}
	x.must(x.store.Close())
	x.crashes++
	x.must(os.RemoveAll(x.dir))
	x.dir = filepath.Join(x.root, fmt.Sprint(x.crashes))
	x.must(os.Mkdir(x.dir, 0o700))
	x.must(os.WriteFile(x.path(), after.file, 0o600))
	x.must(os.WriteFile(x.path()+"-wal", after.log, 0o600))
	x.open()
}

// mix returns a file that was overwritten and lengthened in part: of each sector it has the old bytes, the new
// ones, or, once, the new ones up to some byte. It ends anywhere between the old and the new end.
func mix(random *rand.Rand, before, after []byte) []byte {
	const sector = 512
	end := len(before)
	if len(after) > end {
		end += random.IntN(len(after) - end + 1)
	}
	all := make([]byte, end)
	copy(all, before)
	written, torn := random.Float64(), random.IntN(end/sector+1)
	for n := 0; n*sector < end; n++ {
		from, to := n*sector, min((n+1)*sector, end, len(after))
		if from >= to {
			break
		}
		if n == torn {
			to = from + random.IntN(to-from)
		} else if random.Float64() > written {
			continue
		}
		copy(all[from:to], after[from:to])
	}
	return all
}

func garbage(random *rand.Rand, n int) []byte {
	all := make([]byte, n)
	for i := range all {
		all[i] = byte(random.Uint32())
	}
	return all
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

// A disk that loses power has any part of what was written last: to the log, to the start of the log after a
// checkpoint, or to the file during a checkpoint.
func TestCrashKeepsWhatWasAcknowledged(t *testing.T) {
	memory := "/dev/shm" // thousands of commits need no disk here, where the crash is a copy
	if _, err := os.Stat(memory); err != nil {
		memory = ""
	}
	// A check takes a tenth of a second, so there are fewer than usual unless -rapid.checks asks for another number.
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := flag.Set("rapid.checks", "20"); err != nil {
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
			"commit":     x.commit,
			"checkpoint": x.checkpoint,
			"crash":      x.crash,
			"bill":       x.bill,
			"open": func(*rapid.T) {
				x.must(x.store.Close())
				x.open()
			},
			"": func(*rapid.T) {},
		})
		x.check()
		x.bill(t)
	})
}
