package tool

import (
	"context"
	"errors"

	"symbio/agent/llm"
	"symbio/security/permission"
)

// FilesArg is the argument of a Decision of Authorize that has all files; file_path is the first of
// those that need the approval.
const FilesArg = "files"

// Authorize judges what the call of ctx is about to do to files, before it changes the first of them,
// as calls of a tool such as Write. One denial denies all; the error says which and why. If one needs
// a person's approval, a person is asked once about all of them, and reads diff, the whole change. The
// decision is recorded like the decision about any call. Only a tool whose calls run alone may use it, because
// people are asked about one thing at a time. Outside a Set nothing is allowed.
func Authorize(ctx context.Context, tool string, files []string, diff func() string) error {
	c := currentOf(ctx)
	var whole *job
	for _, file := range files {
		one := &job{call: llm.ToolCall{ID: c.job.call.ID + "?", Name: tool}}
		one.inv = Invocation{Args: map[string]any{"file_path": file}, Preview: func(context.Context) FileDiff { return FileDiff{Diff: diff()} }}
		if !c.set.judge(ctx, one) || one.verdict.Action == permission.Deny {
			c.set.approve(ctx, one) // records the denial and explains it
			return errors.New(file + ": " + one.result.Text)
		}
		if whole == nil || one.verdict.Action < whole.verdict.Action {
			whole = one
		}
	}
	if whole == nil {
		return nil
	}
	whole.inv.Args[FilesArg] = files
	if !c.set.approve(ctx, whole) {
		return errors.New(whole.result.Text)
	}
	return nil
}
