package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/agent/budget"
	"symbio/agent/event"
)

// Options say what the tour surveys, with which model, and where its events go.
type Options struct {
	// Dir is the absolute path of the directory to survey, without symbolic links.
	Dir string
	// Report is the path of the report; "" means a new directory for temporary files.
	Report string
	// Model is a model as --model takes it; "" means the Go function of this package.
	Model string
	// Crash kills node b while its sub-agent works, and starts it again.
	Crash bool
	// Self is the path of this program's executable, which the tour starts as its nodes.
	Self string
	// Show gets every event of both nodes, one call at a time.
	Show func(event.Event)
}

// Result is what the tour counted. The JSON names are a contract.
type Result struct {
	// Type is always "result".
	Type string `json:"type"`
	// Report is the path of the report.
	Report string `json:"report"`
	// Members counts agents and nodes that were members of the community.
	Members int `json:"members"`
	Nodes   int `json:"nodes"`
	// Subagents counts the sub-agents on both nodes.
	Subagents int `json:"subagents"`
	// RemoteCalls counts calls of one node that the other one served.
	RemoteCalls int `json:"remote_calls"`
	// Denied counts refused calls, those between nodes included.
	Denied int    `json:"denied"`
	Skills Skills `json:"skills"`
	// Lent counts sub-agents that lived on the other node.
	Lent int `json:"lent"`
	// Parts has for each node the parts that agents there have surveyed.
	Parts map[string][]string `json:"parts"`
	// Map is what symbio map did; nil in a tour that kills node b.
	Map *Map `json:"map,omitempty"`
	// MCPCalls counts calls of the MCP server's tool for the other node.
	MCPCalls  int       `json:"mcp_calls"`
	Approvals Approvals `json:"approvals"`
	// Steered counts remarks that were delivered to the model while it worked.
	Steered int `json:"steered"`
	// Interrupted counts tasks that the end of a node interrupted.
	Interrupted int `json:"interrupted,omitempty"`
	// Spent is what the agents used on both nodes, as the account of the first agent has it.
	Spent budget.Spent `json:"spent"`
	// Summary is the agent's final answer.
	Summary string `json:"summary"`
}

// Map says how long symbio map took for the same items with node a alone, and with both nodes. The JSON names are a contract.
type Map struct {
	Items int `json:"items"`
	// Alone and Both are in seconds.
	Alone float64 `json:"alone"`
	Both  float64 `json:"both"`
	// Nodes counts the items by node, when both worked.
	Nodes map[string]int `json:"nodes"`
}

// Skills counts what the tour showed of skills. The JSON names are a contract.
type Skills struct {
	// Catalog has the names that models were shown.
	Catalog []string `json:"catalog"`
	// Activations counts how often an agent activated a skill.
	Activations int `json:"activations"`
	// Lifted counts calls that needed approval before a skill allowed them.
	Lifted int `json:"lifted"`
	// StillDenied counts calls of a tool that a skill allowed and a rule denied.
	StillDenied int `json:"still_denied"`
	// GivenBack counts skills that an agent deactivated.
	GivenBack int `json:"given_back"`
	// AskedAgain counts calls that needed approval again after their skill was deactivated.
	AskedAgain int `json:"asked_again"`
}

// Approvals counts the decisions that the scripted user was asked for.
type Approvals struct {
	Asked   int `json:"asked"`
	Allowed int `json:"allowed"`
	Denied  int `json:"denied"`
}

// meetTimeout is how long two nodes on one machine may take to find each other. It is a hundred
// times what they usually need, so that only a network without multicast exceeds it.
const meetTimeout = 10 * time.Second

// readyTimeout is how long node b may take to offer its capabilities: its MCP server has to start
// first.
const readyTimeout = 30 * time.Second

// Run runs the tour and removes everything but the report. It blocks until both nodes have ended.
// The error says which part failed; when ctx ends, the nodes are stopped and the error is that of
// ctx.
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
	var crash errgroup.Group
	if o.Crash {
		crash.Go(func() error { return setup.crash(ctx, observer, nodes) })
	}
	outcome, err := setup.survey(ctx, observer)
	err = errors.Join(err, crash.Wait())
	var mapped *Map
	if err == nil && !o.Crash {
		mapped, err = setup.mapTwice(ctx, observer)
	}
	// After stop has returned, the observer has seen all events of the nodes, so the counts are
	// final.
	if err := errors.Join(err, nodes.stop()); err != nil {
		return Result{}, err
	}
	result := observer.result()
	result.Report, result.Summary, result.Map = o.Report, outcome.Text, mapped
	if outcome.Spent != nil {
		result.Spent = *outcome.Spent
		// The stream of events drops some when there are very many at once; the account of the
		// agent does not.
		result.Subagents = max(result.Subagents, outcome.Spent.Agents)
	}
	if _, err := os.Stat(o.Report); err != nil {
		return Result{}, fmt.Errorf("the survey ended without a report: %s", outcome.Text)
	}
	return result, nil
}
