package demo

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/agent/budget"
	"symbio/cmd/symbio/internal/chat"
	"symbio/internal/agent/node/state"
	symbiov1 "symbio/proto/symbio/v1"
)

// files has the configuration of both nodes and the agent's definition. In them ${NAME} stands for what differs from tour to
// tour.
//
//go:embed tour
var files embed.FS

// options are the directory to survey, absolute and without symbolic links, and the flags.
type options struct {
	dir, report, model string
	crash              bool
}

// tour runs the commands of the tour.
type tour struct {
	options
	// self is the path of this program, whose commands the tour uses.
	self string
	// work is the temporary directory with the configuration and the state of both nodes.
	work  string
	view  *view
	nodes map[string]*process
}

// deniedFile is the name of the files that a rule denies to all agents of the tour: it shows that a
// skill cannot lift a denial.
const deniedFile = ".env"

// The capabilities of node b that the tour uses.
const (
	renderCapability = "report.render"
	lendCapability   = "agents.spawn"
)

// meetTimeout is how long two nodes on one machine may take to find each other. It is a hundred
// times what they usually need, so that only a network without multicast exceeds it.
const meetTimeout = 10 * time.Second

// readyTimeout is how long node b may take to offer its capabilities: its MCP server has to start
// first.
const readyTimeout = 30 * time.Second

// run runs the tour and removes everything but the report. It blocks until both nodes have ended.
// The error says which part failed; when ctx ends, the nodes are stopped and the error comes from
// ctx.
func (t *tour) run(ctx context.Context) (err error) {
	if t.work, err = os.MkdirTemp("", "symbio-demo-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(t.work)) }()
	if t.report == "" {
		out, err := os.MkdirTemp("", "symbio-report-")
		if err != nil {
			return err
		}
		t.report = filepath.Join(out, "report.md")
	}
	first := t.modelOf()
	if t.crash {
		first = "func:" + stuckModelName
	}
	if err := t.configure(first); err != nil {
		return fmt.Errorf("preparing the nodes: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = t.meet(ctx)
	if err == nil {
		err = t.show(ctx)
	}
	// After stop has returned, the view has seen all events of the nodes, so the counts are final.
	var g errgroup.Group
	for _, p := range t.nodes {
		g.Go(p.stop)
	}
	if err = errors.Join(err, g.Wait()); err != nil {
		return err
	}
	if _, err := os.Stat(t.report); err != nil {
		return fmt.Errorf("the survey ended without a report: %s", t.view.result.Summary)
	}
	return nil
}

// modelOf returns the model of the nodes as a configuration names it.
func (t *tour) modelOf() string { return cmp.Or(t.model, "func:"+modelName) }

// configure writes the files of both nodes. firstModel is the model of node b when it starts for the first time.
func (t *tour) configure(firstModel string) error {
	// In a tour that kills node b no rule allows node a to have its report rendered: the question waits until b is there again.
	render := encode("invoke_capability("+renderCapability+")") + ", "
	if t.crash {
		render = ""
	}
	values := map[string]string{
		"dir": encode(t.dir), "report_dir": encode(filepath.Dir(t.report)), "self": encode(t.self),
		"model": encode(t.modelOf()), "first_model": encode(firstModel), "render": render,
	}
	return fs.WalkDir(files, "tour", func(name string, d fs.DirEntry, err error) error {
		to := filepath.Join(t.work, filepath.FromSlash(strings.TrimPrefix(name, "tour")))
		switch {
		case err != nil || name == "tour":
			return err
		case d.IsDir():
			return os.MkdirAll(to, 0o700)
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(to, []byte(os.Expand(string(text), func(key string) string { return values[key] })), 0o600)
	})
}

// meet starts both nodes and returns when node a knows what node b offers. When mDNS does not
// work on this machine, a is started again with the address of b.
func (t *tour) meet(ctx context.Context) error {
	if err := t.start(ctx, "b"); err != nil {
		return err
	}
	if err := t.start(ctx, "a"); err != nil {
		return err
	}
	if !wait(ctx, t.view.peer.met, meetTimeout) && ctx.Err() == nil {
		// There is no multicast on the loopback interface of this machine.
		address := t.nodes["b"].listen
		t.view.note("a", fmt.Sprintf("no answer by mDNS on this machine; a is told b's address, %s", address))
		if err := errors.Join(t.nodes["a"].stop(), t.start(ctx, "a", "--peer", address)); err != nil {
			return err
		}
		if !wait(ctx, t.view.peer.met, meetTimeout) && ctx.Err() == nil {
			return errors.New("node a did not reach node b, neither by mDNS nor by its address")
		}
	}
	if !wait(ctx, t.view.offered(), readyTimeout) && ctx.Err() == nil {
		return fmt.Errorf("node b did not offer %s and %s within %v", renderCapability, lendCapability, readyTimeout)
	}
	return ctx.Err()
}

// wait blocks until the channel is closed and returns true; false after limit or the end of ctx.
func wait(ctx context.Context, what <-chan struct{}, limit time.Duration) bool {
	select {
	case <-what:
		return true
	case <-time.After(limit):
	case <-ctx.Done():
	}
	return false
}

// show gives node a the task, answers its questions meanwhile, and then has both nodes work for symbio map.
func (t *tour) show(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	work, done := context.WithCancel(gctx)
	g.Go(func() error {
		defer done()
		return t.survey(work)
	})
	g.Go(func() error { return t.answer(work, g) })
	if t.crash {
		g.Go(func() error { return t.restart(work, ctx) })
	}
	if err := g.Wait(); err != nil || t.crash {
		return err
	}
	return t.mapTwice(ctx)
}

// survey gives node a the task, waits for its end, and keeps the answer.
func (t *tour) survey(ctx context.Context) error {
	out, err := t.symbio(ctx, "", "run", "--agent", "surveyor", "--output-format", "json", fmt.Sprintf("Survey the directory %s and write the report to %s", t.dir, t.report))
	if err != nil {
		return err
	}
	var answer struct {
		Text  string
		Spent budget.Spent
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return fmt.Errorf("symbio run: %w", err)
	}
	t.view.result.Report, t.view.result.Summary, t.view.result.Spent = t.report, answer.Text, answer.Spent
	return nil
}

// remark is what the tour adds while the agent works.
const remark = "Also say which part is the largest."

// answer answers the questions of agents on node a until ctx ends. Calls that write the report are allowed, and those that
// have it rendered as soon as node b can; every other one is denied. While the first question waits, a remark is added.
func (t *tour) answer(ctx context.Context, g *errgroup.Group) error {
	for first := true; ; first = false {
		var q chat.Question
		select {
		case <-ctx.Done():
			return nil
		case q = <-t.view.questions:
		}
		if first {
			t.view.note("a", "YOU ADD: "+remark+" (symbio agents steer surveyor)")
			read := make(chan struct{})
			g.Go(func() error {
				defer close(read)
				// It ends when the model has read the remark. A task that ends before is no error of the tour.
				_, _ = t.symbio(ctx, "", "agents", "steer", "surveyor", remark)
				return nil
			})
			if err := t.waitForRemark(ctx, read); err != nil {
				return err
			}
		}
		var args struct {
			File       string `json:"file_path"`
			Capability string
		}
		if err := json.Unmarshal(q.Args, &args); err != nil {
			return err
		}
		say, verb := "no", "deny"
		if q.Tool == "Write" && args.File == t.report || args.Capability == renderCapability && wait(ctx, t.view.offered(), readyTimeout) {
			say, verb = "yes, this once", "allow"
		}
		t.view.note("a", "YOU SAY: "+say+" (the tour says it for you: symbio approvals "+verb+")")
		if _, err := t.symbio(ctx, "", "approvals", verb, q.ID); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// waitForRemark returns when the remark waits for the agent's next turn, so that it is in that turn for sure, or when it was
// read already.
func (t *tour) waitForRemark(ctx context.Context, read <-chan struct{}) error {
	conn, err := state.Dir(filepath.Join(t.work, "symbio")).Node("a").Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		c, err := symbiov1.NewControlClient(conn).Conversation(ctx, &symbiov1.ConversationRequest{Member: "surveyor"})
		if err != nil || c.GetWaiting() > 0 || wait(ctx, read, 20*time.Millisecond) {
			return err
		}
	}
}

// restart kills node b when its sub-agent works, and starts it again with a model that answers. work ends with the task, life
// with the tour.
func (t *tour) restart(work, life context.Context) error {
	select {
	case <-t.view.peer.lentWorks:
	case <-work.Done():
		return nil
	}
	b := t.nodes["b"]
	t.view.note("b", "KILLED: the tour kills this node, as a crash does, while its sub-agent works")
	if err := b.kill(); err != nil {
		return err
	}
	delete(t.nodes, "b")
	t.view.killed()
	if err := t.configure(t.modelOf()); err != nil {
		return err
	}
	// The address is the old one, so that a node without mDNS finds it, too.
	return t.start(life, "b", "--listen", b.listen)
}

// mapWords are the items of symbio map.
const mapWords = "two\nmachines\nneed\nhalf\nof\nthe\ntime\ntogether\n"

// mapTwice has symbio map give a word each to agents on node a alone, then to agents on both nodes, and notes the results.
func (t *tour) mapTwice(ctx context.Context) error {
	m := &mapResult{Nodes: map[string]int{}}
	var out []byte
	for _, run := range []struct {
		nodes string
		took  *float64
	}{{"a", &m.Alone}, {"all", &m.Both}} {
		begin := time.Now()
		var err error
		out, err = t.symbio(ctx, mapWords, "map", "--nodes", run.nodes, "--parallel", "4", "--agent", "surveyor", "--lines", "-", "--task", "Shout {item}")
		if err != nil {
			return err
		}
		*run.took = time.Since(begin).Seconds()
	}
	for line := range bytes.Lines(out) {
		var r struct{ Item, Result, Node string }
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("symbio map: %w", err)
		}
		t.view.note(r.Node, "MAPPED: symbio map gave "+r.Item+" to an agent here: "+r.Result)
		m.Items++
		m.Nodes[r.Node]++
	}
	t.view.result.Map = m
	return nil
}
