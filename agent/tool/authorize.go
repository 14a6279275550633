package tool

import (
	"context"
	"errors"

	"symbio/agent/llm"
	"symbio/security/permission"
)

// Authorize judges what the call of ctx is about to do to files, before it changes the first of them,
// as calls of a tool such as Write. One denial denies all; the error says which and why. If one needs
// a person's approval, a person is asked once about all of them; shown are the arguments that the
// person reads, diff the change. The decision is recorded as that of any call. Only a tool whose calls
// run alone may use it, because people are asked about one thing at a time. Outside a Set nothing is
// allowed.
func Authorize(ctx context.Context, tool string, files []string, shown map[string]any, diff func() string) error {
	c := currentOf(ctx)
	whole := &job{call: llm.ToolCall{ID: c.job.call.ID + "?", Name: c.job.call.Name}, verdict: permission.Verdict{Action: permission.Allow, Why: "It writes nothing."}}
	whole.inv = Invocation{Args: shown, Preview: func(context.Context) FileDiff { return FileDiff{Diff: diff()} }}
	for i, file := range files {
		one := &job{call: llm.ToolCall{ID: whole.call.ID, Name: tool}, inv: Invocation{Args: map[string]any{"file_path": file}}}
		if !c.set.judge(ctx, one) || one.verdict.Action == permission.Deny {
			c.set.approve(ctx, one) // records the denial and explains it
			return errors.New(file + ": " + one.result.Text)
		}
		if i == 0 || one.verdict.Action < whole.verdict.Action {
			whole.verdict = one.verdict
		}
	}
	if !c.set.approve(ctx, whole) {
		return errors.New(whole.result.Text)
	}
	return nil
}
