package session_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/internal/agent/session/sqlite"
)

func TestMemory(t *testing.T) { testStore(t, inMemory) }

func TestSQLite(t *testing.T) {
	testStore(t, func(t *testing.T) session.Store {
		return opened(t, func() (*sqlite.Store, error) { return sqlite.Open(filepath.Join(t.TempDir(), "sessions.db")) })
	})
}

// inMemory returns a new store in memory.
func inMemory(t *testing.T) session.Store { return opened(t, sqlite.OpenMemory) }

// opened returns a store that is closed when the test ends.
func opened(t *testing.T, open func() (*sqlite.Store, error)) session.Store {
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// testStore is the suite of tests that every session.Store passes. open returns a new, empty store, and
// closes it when its test ends.
func testStore(t *testing.T, open func(t *testing.T) session.Store) {
	tests := []struct {
		name string
		test func(t *testing.T, s session.Store)
	}{
		{"KeepsEntriesInOrder", keepsOrder}, {"KeepsAllFields", keepsFields}, {"KeepsTitle", keepsTitle}, {"FiltersSessions", filters},
		{"SearchesWords", searches}, {"SearchesHostileWords", searchesHostile}, {"KeepsContents", keepsContents},
		{"Deletes", deletes}, {"Recovers", recovers}, {"NamesMissingSession", namesMissing}, {"CommitsConcurrently", commitsConcurrently},
		{"PrunesByAge", prunesByAge}, {"PrunesBySize", prunesBySize}, {"PrunesNoUnfinished", prunesNoUnfinished},
		{"AddsUpCalls", addsUpCalls}, {"CountsCallsOnce", countsCallsOnce}, {"RefusesUnknownColumn", refusesUnknownColumn},
	}
	for _, p := range tests {
		t.Run(p.name, func(t *testing.T) { p.test(t, open(t)) })
	}
}

// started is the time of the first entry of each test.
var started = time.Date(2026, 3, 1, 12, 0, 0, 123_000, time.UTC)

// info returns a session without an exchange that was used some hours after started.
func info(id string, hours int) session.Info {
	at := started.Add(time.Duration(hours) * time.Hour)
	return session.Info{ID: id, Root: id, State: session.Idle, Created: at, Updated: at}
}

// text returns an entry that a search finds.
func text(format string, args ...any) session.Entry {
	return session.Entry{Kind: session.Text, Time: started, Text: fmt.Sprintf(format, args...)}
}

func commit(t *testing.T, s session.Store, i session.Info, entries ...session.Entry) {
	t.Helper()
	if err := s.Commit([]session.Write{{Info: i, Entries: entries}}); err != nil {
		t.Fatal(err)
	}
}

func entriesOf(t *testing.T, s session.Store, id string, after int64) []session.Entry {
	t.Helper()
	all, err := s.Entries(t.Context(), id, after)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// expect compares the ids of the selected sessions.
func expect(t *testing.T, s session.Store, f session.Filter, want ...string) []session.Info {
	t.Helper()
	all, err := s.Sessions(t.Context(), f)
	var got []string
	for _, i := range all {
		got = append(got, i.ID)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("sessions with %+v: %v, %v; want %v", f, got, err, want)
	}
	return all
}

// keepsOrder mixes the entries of two sessions in one commit and over several.
func keepsOrder(t *testing.T, s session.Store) {
	a, b := info("a", 0), info("b", 1)
	for n := range 5 {
		err := s.Commit([]session.Write{{Info: a, Entries: []session.Entry{text("a %d", 2*n), text("a %d", 2*n+1)}}, {Info: b, Entries: []session.Entry{text("b %d", n)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	all, last := entriesOf(t, s, "a", 0), int64(0)
	for n, e := range all {
		if e.Text != fmt.Sprint("a ", n) || e.ID <= last {
			t.Errorf("entry %d is %q with ID %d after %d", n, e.Text, e.ID, last)
		}
		last = e.ID
	}
	commit(t, s, session.Info{ID: "b"}, text("b 5")) // the session stays as it is
	if got := expect(t, s, session.Filter{}, "b", "a"); !reflect.DeepEqual(got, []session.Info{b, a}) {
		t.Errorf("the sessions are %+v", got)
	}
	if rest := entriesOf(t, s, "a", all[7].ID); len(all) != 10 || !reflect.DeepEqual(rest, all[8:]) || len(entriesOf(t, s, "b", 0)) != 6 {
		t.Errorf("%d entries, behind the eighth %v", len(all), rest)
	}
}

func keepsFields(t *testing.T, s session.Store) {
	i, cost := info("a", 0), 0.25
	i.Title, i.Dir, i.Node, i.Agent, i.Name, i.Member, i.Model, i.Parent, i.Requester, i.Keep, i.Exchange.Open, i.Turns = "t", "/d", "n", "g", "m", "id", "o", "p", "r", true, true, 3
	commit(t, s, i,
		session.Entry{Kind: session.Answer, Time: started, Usage: &llm.Usage{Input: 1, Cost: &cost}, Message: &llm.Message{
			Role: llm.Assistant, Text: "né\x00w", Thinking: []llm.Thinking{{Text: "hm", Signature: "s"}}, Calls: []llm.ToolCall{{ID: "1", Name: "f", Args: []byte(`{"x": 1}`)}},
		}},
		session.Entry{Kind: session.Compaction, Time: started, Began: -1, Messages: []llm.Message{{Role: llm.User, Text: "all"}}},
		session.Entry{Kind: session.End, Time: started, Status: session.Failed, Count: 2, Text: "why"})
	if got := expect(t, s, session.Filter{}, "a"); !reflect.DeepEqual(got[0], i) {
		t.Errorf("the session is %+v, want %+v", got[0], i)
	}
	got := entriesOf(t, s, "a", 0)
	if m := got[0].Message; m.Text != "né\x00w" || m.Thinking[0].Signature != "s" || string(m.Calls[0].Args) != `{"x": 1}` && string(m.Calls[0].Args) != `{"x":1}` || *got[0].Usage.Cost != cost || !got[0].Time.Equal(started) {
		t.Errorf("the answer is %+v", got[0])
	}
	if c, e := got[1], got[2]; c.Began != -1 || c.Messages[0].Text != "all" || e.Kind != session.End || e.Status != session.Failed || e.Count != 2 || e.Text != "why" {
		t.Errorf("the entries are %+v, %+v", c, e)
	}
}

// keepsTitle expects the first title, or that of Rename, whatever later commits say.
func keepsTitle(t *testing.T, s session.Store) {
	i := info("a", 0)
	for _, step := range []struct{ commit, rename, want string }{{"", "", ""}, {"first", "", "first"}, {"second", "", "first"}, {"", "", "first"}, {"third", "renamed", "renamed"}, {"fourth", "", "renamed"}} {
		i.Title = step.commit
		commit(t, s, i)
		if step.rename != "" {
			if err := s.Rename(t.Context(), "a", step.rename); err != nil {
				t.Fatal(err)
			}
		}
		if got := expect(t, s, session.Filter{}, "a"); got[0].Title != step.want {
			t.Errorf("after %+v the title is %q", step, got[0].Title)
		}
	}
}

// family commits a root with two children and a grandchild, and a session of its own.
func family(t *testing.T, s session.Store) {
	for n, m := range []struct{ id, parent, root string }{{"root", "", "root"}, {"son", "root", "root"}, {"daughter", "root", "root"}, {"grandson", "son", "root"}, {"other", "", "other"}} {
		i := info(m.id, n)
		i.Parent, i.Root, i.State, i.Dir = m.parent, m.root, session.Done, "/"+m.root
		commit(t, s, i, text("words of %s", m.id))
	}
}

func filters(t *testing.T, s session.Store) {
	family(t, s)
	i := info("other", 9)
	i.State, i.Dir, i.Keep = session.Failed, "/other", true
	commit(t, s, i)
	expect(t, s, session.Filter{}, "other", "grandson", "daughter", "son", "root")
	expect(t, s, session.Filter{Limit: 2}, "other", "grandson")
	expect(t, s, session.Filter{Roots: true}, "other", "root")
	expect(t, s, session.Filter{Parent: "root"}, "daughter", "son")
	expect(t, s, session.Filter{Root: "root", Limit: 3}, "grandson", "daughter", "son")
	expect(t, s, session.Filter{Dir: "/other"}, "other")
	expect(t, s, session.Filter{Keep: true}, "other")
	expect(t, s, session.Filter{Keep: true, Root: "root"})
	expect(t, s, session.Filter{ID: "r"}, "root")
	expect(t, s, session.Filter{ID: "root"}, "root")
	expect(t, s, session.Filter{ID: "roots"})
	expect(t, s, session.Filter{Dir: "/"})
	expect(t, s, session.Filter{States: []session.State{session.Failed, session.Lost}}, "other")
	expect(t, s, session.Filter{Root: "root", States: []session.State{session.Failed}})
}

// find returns the texts that a search finds.
func find(t *testing.T, s session.Store, words string, limit int) (found []string) {
	t.Helper()
	matches, err := s.Search(t.Context(), words, limit)
	if err != nil {
		t.Errorf("search for %q: %v", words, err)
	}
	for _, m := range matches {
		found = append(found, m.Text)
	}
	return found
}

func searches(t *testing.T, s session.Store) {
	i := info("a", 0)
	i.Title = "title"
	commit(t, s, i, text("the blue whale"), text("a Whale of a time"), session.Entry{Kind: session.Task, Message: &llm.Message{Text: "ÄRGER mit straße 鯨"}}, session.Entry{Kind: session.Request, Text: "whale"})
	for _, c := range []struct {
		words string
		limit int
		want  []string
	}{
		{"whale", 9, []string{"a Whale of a time", "the blue whale"}}, {"whale", 1, []string{"a Whale of a time"}}, {"whale", 0, []string{"a Whale of a time", "the blue whale"}},
		{"WHALE blue", 9, []string{"the blue whale"}}, {"wha", 9, []string{"a Whale of a time", "the blue whale"}}, {"whale time the", 9, nil}, {"", 9, nil}, {" \t\n", 9, nil},
		{"ärger STRASSE", 9, nil}, {"ärger", 9, []string{"ÄRGER mit straße 鯨"}}, {"鯨", 9, []string{"ÄRGER mit straße 鯨"}},
	} {
		if got := find(t, s, c.words, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("search for %q, at most %d: %q, want %q", c.words, c.limit, got, c.want)
		}
	}
	if m, err := s.Search(t.Context(), "blue", 1); err != nil || m[0].Session.Title != "title" || m[0].Kind != session.Text || m[0].ID == 0 {
		t.Errorf("the match is %+v, %v", m, err)
	}
}

// searchesHostile expects that what has a meaning in a query language is a word like others.
func searchesHostile(t *testing.T, s session.Store) {
	commit(t, s, info("a", 0), text("plain text"), text("near and not"))
	for _, words := range []string{`"`, `""`, `'`, `plain"`, `"plain text"`, "*", "pla*", "^plain", "-text", "+", ":", "text:plain", "(", ")", "{a b}", "plain OR", "AND", "plain NOT near", "NEAR(plain near)", "a\x00b", "\x00", "\xff\xfe", "%", "_", ";--", "\\", strings.Repeat(`"x `, 300)} {
		for _, found := range find(t, s, words, 9) {
			if first := strings.Trim(strings.ToLower(strings.Fields(words)[0]), `"*^-`); first == "" || !strings.Contains(found, first) {
				t.Errorf("search for %q found %q", words, found)
			}
		}
	}
	if got := find(t, s, "not near AND", 9); !slices.Equal(got, []string{"near and not"}) {
		t.Errorf("operators as words found %q", got)
	}
}

// keepsContents expects the content of a file apart from its entry, once for each session.
func keepsContents(t *testing.T, s session.Store) {
	edit := func(content string) session.Entry {
		return session.Entry{Kind: session.Edit, Time: started, Edit: &session.FileEdit{Path: "/f", Call: "1", Before: "abc", After: "def", Mode: 0o640, Content: []byte(content)}}
	}
	commit(t, s, info("a", 0), edit("old\x00"), edit("old\x00"))
	commit(t, s, info("b", 0))
	if got := entriesOf(t, s, "a", 0)[1].Edit; got.Content != nil || got.Before != "abc" || got.After != "def" || got.Mode != 0o640 || got.Path != "/f" || got.Call != "1" {
		t.Errorf("the edit is %+v", got)
	}
	if got, err := s.Content(t.Context(), "a", "abc"); err != nil || string(got) != "old\x00" {
		t.Errorf("the content is %q, %v", got, err)
	}
	for _, c := range [][2]string{{"a", "def"}, {"b", "abc"}, {"", "aabc"}} {
		if got, err := s.Content(t.Context(), c[0], c[1]); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("content %s of %s: %q, %v", c[1], c[0], got, err)
		}
	}
}

// deletes expects that nothing is left of a session, and that the error about one keeps the others.
func deletes(t *testing.T, s session.Store) {
	family(t, s)
	if err := s.Delete(t.Context(), "other", "none"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("delete of a session that does not exist: %v", err)
	}
	expect(t, s, session.Filter{Roots: true}, "other", "root")
	if err := s.Delete(t.Context(), "root", "grandson"); err != nil {
		t.Fatal(err)
	}
	expect(t, s, session.Filter{}, "other", "daughter", "son")
	if got := find(t, s, "words", 9); !slices.Equal(got, []string{"words of other", "words of daughter", "words of son"}) {
		t.Errorf("a search found %q", got)
	}
	commit(t, s, info("root", 0), text("new"))
	if got := entriesOf(t, s, "root", 0); len(got) != 1 {
		t.Errorf("a new session with an old id has %d entries", len(got))
	}
}

func recovers(t *testing.T, s session.Store) {
	for _, i := range []struct {
		id, requester string
		state         session.State
	}{{"idle", "", session.Idle}, {"own", "", session.Working}, {"lent", "node b", session.Working}, {"done", "node b", session.Done}, {"failed", "", session.Failed}, {"lost", "", session.Lost}} {
		x := info(i.id, 0)
		x.State, x.Requester, x.Title, x.Exchange.Open = i.state, i.requester, "title of "+i.id, i.state == session.Working
		commit(t, s, x, text("words"))
	}
	before := expect(t, s, session.Filter{}, "own", "lost", "lent", "idle", "failed", "done")
	got, err := s.Recover(t.Context())
	if err != nil || len(got) != 2 {
		t.Fatalf("recovered %+v, %v", got, err)
	}
	for n := range before {
		switch before[n].ID {
		case "own":
			before[n].State = session.Interrupted
		case "lent":
			before[n].State = session.Lost
		default:
			continue
		}
		if !slices.ContainsFunc(got, func(i session.Info) bool { return reflect.DeepEqual(i, before[n]) }) {
			t.Errorf("recovered %+v, want with %+v", got, before[n])
		}
	}
	if after := expect(t, s, session.Filter{}, "own", "lost", "lent", "idle", "failed", "done"); !reflect.DeepEqual(after, before) {
		t.Errorf("the sessions are %+v, want %+v", after, before)
	}
	if again, err := s.Recover(t.Context()); len(again) > 0 || err != nil {
		t.Errorf("the second time recovered %+v, %v", again, err)
	}
}

func namesMissing(t *testing.T, s session.Store) {
	_, entries := s.Entries(t.Context(), "none", 0)
	for what, err := range map[string]error{"Entries": entries, "Rename": s.Rename(t.Context(), "none", "x"), "Delete": s.Delete(t.Context(), "none")} {
		if !errors.Is(err, session.ErrNotFound) || !strings.Contains(err.Error(), `"none"`) {
			t.Errorf("%s of a session that does not exist: %v", what, err)
		}
	}
}

// commitsConcurrently has writers, readers and a search side by side.
func commitsConcurrently(t *testing.T, s session.Store) {
	const writers, commits = 8, 20
	var g errgroup.Group
	for w := range writers {
		id := string(rune('a' + w))
		g.Go(func() error {
			for n := range commits {
				if err := s.Commit([]session.Write{{Info: info(id, n), Entries: []session.Entry{text("entry %d", n), text("entry more")}}}); err != nil {
					return err
				}
				if all, err := s.Entries(t.Context(), id, 0); err != nil || len(all) != 2*(n+1) {
					return fmt.Errorf("%d entries after %d commits of two: %w", len(all), n+1, err)
				}
			}
			return nil
		})
		g.Go(func() error {
			for range commits {
				_, one := s.Sessions(t.Context(), session.Filter{States: []session.State{session.Idle}})
				if _, two := s.Search(t.Context(), "entry", 3); one != nil || two != nil {
					return errors.Join(one, two)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if found := find(t, s, "more", 0); len(found) != writers*commits {
		t.Errorf("%d entries, want %d", len(found), writers*commits)
	}
}

// prune expects how many sessions are deleted.
func prune(t *testing.T, s session.Store, before time.Time, maxBytes int64, want int, except ...string) {
	t.Helper()
	if got, err := s.Prune(t.Context(), before, maxBytes, except...); err != nil || got != want {
		t.Errorf("pruned %d sessions, %v; want %d", got, err, want)
	}
}

// prunesByAge expects that a tree is as old as its latest session.
func prunesByAge(t *testing.T, s session.Store) {
	family(t, s)
	prune(t, s, started.Add(3*time.Hour), 0, 0) // the grandson was used then
	prune(t, s, started.Add(4*time.Hour), 0, 0, "daughter")
	prune(t, s, time.Time{}, 0, 0)
	prune(t, s, started.Add(4*time.Hour), 0, 4)
	expect(t, s, session.Filter{}, "other")
	prune(t, s, started.Add(5*time.Hour), 1<<40, 1)
	expect(t, s, session.Filter{})
}

// prunesBySize expects that the oldest go first, and no more than needed.
func prunesBySize(t *testing.T, s session.Store) {
	const each, sessions = 200 << 10, 10
	for n := range sessions {
		commit(t, s, info(string(rune('a'+n)), n), text("%s", strings.Repeat("x", each)))
	}
	prune(t, s, time.Time{}, 100*each, 0)
	if n, err := s.Prune(t.Context(), time.Time{}, 5*each+each/4, "j"); err != nil || n < 5 || n > 7 {
		t.Errorf("pruned %d of %d sessions to half of the size, %v", n, sessions, err)
	}
	if left, err := s.Sessions(t.Context(), session.Filter{}); err != nil || left[0].ID != "j" || left[len(left)-1].ID != string(rune('a'+sessions-len(left))) {
		t.Errorf("not the oldest were pruned: %+v, %v", left, err)
	}
	if _, err := s.Prune(t.Context(), time.Time{}, 1, "j"); err != nil {
		t.Error(err)
	}
	expect(t, s, session.Filter{}, "j")
}

// prunesNoUnfinished has a tree for each reason to stay, and one for each state that is none.
func prunesNoUnfinished(t *testing.T, s session.Store) {
	write := func(id, parent string, change func(*session.Info)) {
		i := info(id, 0)
		i.State = session.Done
		if parent != "" {
			i.Parent, i.Root = parent, parent
		}
		change(&i)
		commit(t, s, i)
	}
	none := func(*session.Info) {}
	state := func(st session.State) func(*session.Info) {
		return func(i *session.Info) { i.State, i.Exchange.Open = st, true }
	}
	write("open", "", state(session.Interrupted))
	write("keep", "", func(i *session.Info) { i.Keep = true })
	write("parent", "", none)
	write("child", "parent", state(session.Working))
	write("lost", "", state(session.Lost))
	write("ended", "", none)
	write("interrupted", "ended", state(session.Interrupted)) // goes on with its parent only, which has ended
	prune(t, s, started.Add(time.Hour), 1, 3)
	expect(t, s, session.Filter{}, "parent", "open", "keep", "child")
}
