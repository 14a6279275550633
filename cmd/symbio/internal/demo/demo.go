package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"symbio/cmd/symbio/internal/node"
	symbiov1 "symbio/proto/symbio/v1"
)

// Options say what is shown, and to whom.
type Options struct {
	Dir    string // the directory to survey, absolute
	Report string // where the report goes; "" = in a directory for temporary files
	Model  string // "" = the scripted one
	Self   string // this program's executable
	// Show gets every event of both nodes, one at a time.
	Show func(node.Event)
}

// Result is what came of it; the names are a contract.
type Result struct {
	Type        string `json:"type"` // result
	Report      string `json:"report"`
	Members     int    `json:"members"`
	Nodes       int    `json:"nodes"`
	Subagents   int    `json:"subagents"`
	RemoteCalls int    `json:"remote_calls"`
	Denied      int    `json:"denied"`
	Skills      Skills `json:"skills"`
	Summary     string `json:"summary"`
}

// meeting is how long two nodes on one machine may take to find each other: a hundred times what
// they need.
const meeting = 10 * time.Second

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
	stage, err := prepare(work, o)
	if err != nil {
		return Result{}, fmt.Errorf("preparing the nodes: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	play := newPlay(o.Show)
	cast, err := stage.enter(ctx, play)
	if err != nil {
		return Result{}, err
	}
	summary, err := stage.survey(ctx)
	if err := errors.Join(err, cast.leave()); err != nil { // after it, all that they did has been seen
		return Result{}, err
	}
	result := play.result()
	result.Report, result.Summary = o.Report, summary
	if _, err := os.Stat(o.Report); err != nil {
		return Result{}, fmt.Errorf("the survey ended without a report: %s", summary)
	}
	return result, nil
}

// survey gives node a the task and waits for its end.
func (s stage) survey(ctx context.Context) (string, error) {
	conn, err := s.state.Dial("a")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	task := fmt.Sprintf("Survey the directory %s and write the report to %s", s.options.Dir, s.options.Report)
	stream, err := symbiov1.NewControlClient(conn).Run(ctx, &symbiov1.RunRequest{Task: task, Agent: "surveyor", Model: s.options.Model})
	if err != nil {
		return "", err
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("node a ended the task without a result")
			}
			return "", err
		}
		if e.GetType() != "result" {
			continue // node a's own output shows it
		}
		var r struct{ Text, Status, Error string }
		if err := json.Unmarshal(e.GetData(), &r); err != nil {
			return "", err
		}
		if r.Status != "done" {
			return "", fmt.Errorf("the survey %s: %s", r.Status, r.Error)
		}
		return r.Text, nil
	}
}
