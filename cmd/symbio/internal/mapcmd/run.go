package mapcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
)

// run is one run of the command.
type run struct {
	client symbiov1.ControlClient
	// request is what all tasks have in common.
	request  *symbiov1.RunTaskRequest
	template string
	in       *input
	// parallel is how many items are worked on at once, retries how often one that failed is tried again.
	parallel, retries int

	journal  *journal
	progress *progress
	// free gets a value when an item has ended, so that one that waits for its place asks again.
	free chan struct{}
}

// all works on the items. It returns when all its tasks have ended: nil if each item has an outcome, else the error that
// ended the run, or the cause of outer.
func (r *run) all(outer context.Context) error {
	inner, stop := context.WithCancel(outer)
	defer stop()
	g, ctx := errgroup.WithContext(inner)
	g.SetLimit(r.parallel)
	var problem error // with the input
	for it := r.in.next(); it != nil && problem == nil && ctx.Err() == nil; it = r.in.next() {
		known, err := r.journal.get(it.index)
		switch {
		case err == nil && known.Hash != "" && known.Hash != it.hash:
			err = r.journal.differs(fmt.Sprintf("item %d, %s, is another one now, or other work", it.index, it.line))
		case known.Hash == "" || known.State != "":
			g.Go(func() error { return r.one(ctx, it, known.State == begun) })
		default:
			r.progress.count(known, true)
		}
		problem = err
	}
	if problem = cmp.Or(problem, r.in.err()); problem != nil {
		stop()
	}
	err := g.Wait()
	switch {
	case outer.Err() != nil:
		return context.Cause(outer)
	case problem == nil && err == nil && len(r.journal.at) > r.in.read:
		return r.journal.differs("it has more items")
	}
	return cmp.Or(problem, err)
}

// one works on an item. Its error ends the run; a failure of the item is part of its outcome. again reports that an
// earlier run began it.
func (r *run) one(ctx context.Context, it *item, again bool) error {
	o := &outcome{Index: it.index, Item: it.json, Hash: it.hash, again: again}
	request, _ := proto.Clone(r.request).(*symbiov1.RunTaskRequest)
	request.Again = again
	var err error
	if request.Task, err = r.in.expand(r.template, request.GetCapability() != "", it); err != nil {
		o.Error = err.Error()
	} else if err = r.tries(ctx, request, o); err != nil {
		return err
	}
	if err = r.put(o, ""); err != nil {
		return err
	}
	r.progress.count(*o, false)
	select {
	case r.free <- struct{}{}:
	default: // no item waits, or one will ask already
	}
	return nil
}

// The states of an item without an outcome: it waits for a place and has not begun, or it may have.
const waiting, begun = "waiting", "begun"

// put keeps an outcome. An item that an earlier run began stays begun until its outcome is known.
func (r *run) put(o *outcome, state string) error {
	if o.State = state; state == waiting && o.again {
		o.State = begun
	}
	return r.journal.put(*o)
}

const (
	// busyWait is how long an item waits for a free place before it asks again, if none of this run ends before.
	busyWait = 500 * time.Millisecond
	// maxAbsence is how long an item waits for a node that could do it. Then the run ends.
	maxAbsence = 30 * time.Second
)

// tries runs a task until it has a result, has failed often enough, is lost or refused. It waits as long as all places
// are taken. The error ends the run: each further item would fail for the same reason.
func (r *run) tries(ctx context.Context, request *symbiov1.RunTaskRequest, o *outcome) error {
	since := time.Now()
	for tries := 0; ; {
		if err := r.put(o, waiting); err != nil { // it begins when try has kept that it may
			return err
		}
		err := r.try(ctx, request, o)
		switch code := status.Code(err); {
		case err == nil && (o.Error == "" || o.Lost || tries >= r.retries):
			return nil
		case err == nil:
			tries++
			continue
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case code == codes.PermissionDenied, code == codes.InvalidArgument:
			o.Error = command.ErrorText(ctx, err)
			return nil
		case code == codes.ResourceExhausted:
			since = time.Now()
		case code != codes.Unavailable || time.Since(since) > maxAbsence:
			return err
		default:
			if _, gone := r.client.Status(ctx, &symbiov1.StatusRequest{}); gone != nil {
				return fmt.Errorf("the node that this command talks to has ended: %w", gone)
			}
		}
		if err := r.put(o, waiting); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-r.free:
		case <-time.After(busyWait):
		}
	}
}

// try runs a task once. The error comes from a task that has not begun, or of a node that has ended.
func (r *run) try(ctx context.Context, request *symbiov1.RunTaskRequest, o *outcome) error {
	stream, err := r.client.RunTask(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) { // then Recv has the error
		return err
	}
	for {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = errors.New("the node ended the task without a result")
		}
		if err != nil {
			return err
		}
		result := e.GetResult()
		if p := e.GetPlaced(); p != nil {
			o.Node = p.GetNode()
			o.Attempts++
			// Only then may it begin, so that a run which is killed here does not begin it again.
			if err = r.put(o, begun); err == nil {
				_ = stream.Send(&symbiov1.RunTaskRequest{}) // Recv has the error
			}
		} else if result == nil && o.State != waiting {
			err = r.put(o, waiting)
		}
		if err != nil {
			return err
		}
		if result == nil {
			continue
		}
		o.Error, o.Lost, o.Result = result.GetError(), result.GetLost(), nil
		o.Denials, o.OmittedDenials = nil, int(result.GetOmittedDenials())
		for _, d := range result.GetDenials() {
			o.Denials = append(o.Denials, chat.Denial{Agent: d.GetAgent(), Tool: d.GetTool(), Args: d.GetArgs(), Why: d.GetWhy(),
				YesTo: append([]string{}, d.GetAllow()...)})
		}
		if s := result.GetSpent(); s != nil {
			o.Spent = map[string]float64{"model_calls": float64(s.GetModelCalls()), "tokens": float64(s.GetInput() + s.GetOutput()), "cost": s.GetCost()}
		}
		if o.Error != "" {
			return nil
		}
		if request.GetCapability() != "" {
			o.Result = command.PayloadJSON([]byte(result.GetText()))
			return nil
		}
		o.Result, err = json.Marshal(result.GetText())
		return err
	}
}
