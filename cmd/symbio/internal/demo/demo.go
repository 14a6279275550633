package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"symbio/agent/budget"
	"symbio/agent/event"
)

// Options say what is shown, and to whom.
type Options struct {
	Dir    string // the directory to survey, absolute
	Report string // where the report goes; "" = in a directory for temporary files
	Model  string // "" = the Go function of this package
	Self   string // this program's executable
	// Show gets every event of both nodes, one at a time.
	Show func(event.Event)
}

// Result is what outcome of it; the names are a contract.
type Result struct {
	Type        string    `json:"type"` // result
	Report      string    `json:"report"`
	Members     int       `json:"members"`
	Nodes       int       `json:"nodes"`
	Subagents   int       `json:"subagents"`
	RemoteCalls int       `json:"remote_calls"`
	Denied      int       `json:"denied"`
	Skills      Skills    `json:"skills"`
	Lent        int       `json:"lent"`      // sub-agents that lived on the other node
	MCPCalls    int       `json:"mcp_calls"` // of the MCP server's tool, for the other node
	Approvals   Approvals `json:"approvals"`
	Steered     int       `json:"steered"` // what was said meanwhile, and delivered to the model
	// Spent is what the agents have used on both nodes, as the first of them has it in its account.
	Spent   budget.Spent `json:"spent"`
	Summary string       `json:"summary"`
}

// Skills is what the tour showed of skills, counted; the names are a contract.
type Skills struct {
	Catalog     []string `json:"catalog"`      // names that models were shown
	Activations int      `json:"activations"`  // how often an agent took one
	Lifted      int      `json:"lifted"`       // calls that were to be asked about, and that a grant allowed then
	StillDenied int      `json:"still_denied"` // calls of a granted tool that a rule denied
	GivenBack   int      `json:"given_back"`   // skills that an agent gave back
	AskedAgain  int      `json:"asked_again"`  // calls that had been allowed by a grant, and after it were to be asked about
}

// Approvals are the decisions that were put to the person, counted.
type Approvals struct {
	Asked   int `json:"asked"`
	Allowed int `json:"allowed"`
	Denied  int `json:"denied"`
}

// meetTimeout is how long two nodes on one machine may take to find each other: a hundred times what
// they need.
const meetTimeout = 10 * time.Second

// readyTimeout is how long node b may take until it offers what it has: its MCP server has to start.
const readyTimeout = 30 * time.Second

// Run shows the tour and cleans up after itself; only the report stays.
func Run(ctx context.Context, o Options) (_ Result, err error) {
	work, err := os.MkdirTemp("", "symbio-demo-")
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if o.Report == "" {
		out, err := os.MkdirTemp("", "symbio-report-")
		if err != nil {
			return Result{}, err
		}
		o.Report = filepath.Join(out, "report.md")
	}
	setup, err := prepare(work, o)
	if err != nil {
		return Result{}, fmt.Errorf("preparing the nodes: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	observer := newObserver(o.Show)
	nodes, err := setup.startNodes(ctx, observer)
	if err != nil {
		return Result{}, err
	}
	outcome, err := setup.survey(ctx, observer)
	if err := errors.Join(err, nodes.stop()); err != nil { // after it, all that they did has been seen
		return Result{}, err
	}
	result := observer.result()
	result.Report, result.Summary = o.Report, outcome.Text
	if outcome.Spent != nil {
		result.Spent = *outcome.Spent
		result.Subagents = max(result.Subagents, outcome.Spent.Agents) // of very many not every event is there
	}
	if _, err := os.Stat(o.Report); err != nil {
		return Result{}, fmt.Errorf("the survey ended without a report: %s", outcome.Text)
	}
	return result, nil
}
