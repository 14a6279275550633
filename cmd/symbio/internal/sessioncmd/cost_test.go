package sessioncmd_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/sessioncmd"
	"symbio/internal/agent/session/sqlite"
)

// A person at a terminal gets a heading, a line of the total, and what the figures do not say.
func TestCostOnTerminalHasTotal(t *testing.T) {
	dir := t.TempDir()
	var out, notes bytes.Buffer
	env := &command.Env{Out: &out, Err: &notes, OutIsTerminal: true, Getenv: func(name string) string {
		return map[string]string{"HOME": dir, "XDG_STATE_HOME": dir}[name]
	}}
	state := env.State()
	if err := os.MkdirAll(filepath.Dir(state.Node("a").Sessions()), 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(state.Node("a").Sessions())
	if err != nil {
		t.Fatal(err)
	}
	request := func(model string) session.Entry {
		return session.Entry{Kind: session.Request, Usage: &llm.Usage{Input: 300, Model: model}}
	}
	log := session.NewJournal(store, "a").Create(session.Info{Agent: "general"})
	err = log.Commit(session.Entry{Kind: session.Task, Message: &llm.Message{Text: "x"}},
		request("m"), session.Entry{Kind: session.Answer, Message: &llm.Message{}, Usage: &llm.Usage{Input: 200, Output: 20, CacheRead: 150, Cost: new(0.25)}}, request("n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := sessioncmd.New(env)
	cmd.SetArgs([]string{"cost", "--by", "model", "--until", time.Now().AddDate(0, 0, 2).Format(time.DateOnly)})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = `MODEL  MODEL CALLS  COST       INPUT  OUTPUT  CACHE READ
m      1            $0.25      200    20      150
n      1            not known  0      0       0
total  2            $0.25+     200    20      150
`
	const wantNotes = `note: 300 tokens are estimates: of requests in flight, and of those whose answer was lost, for example because the node was killed
note: the cost is without 1 model call: there is no price; write it under prices in the configuration
`
	if out.String() != want || notes.String() != wantNotes {
		t.Errorf("got\n%s%s", out.String(), notes.String())
	}
}
