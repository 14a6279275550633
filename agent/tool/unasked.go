package tool

import (
	"context"

	"symbio/agent/llm"
	"symbio/security/permission"
)

// RunUnasked runs a call that a person's message stands for, such as the Read of a file that it names, if the rules allow it
// without a question; else the result says why not. A call that runs is reported and decided as any other. It is none of the
// model's, so OnStart and OnEnd are not called.
func (s *Set) RunUnasked(ctx context.Context, c llm.ToolCall) llm.ToolResult {
	j, allowed := &job{call: c, gallery: new(gallery)}, false
	j.result.IsError = true
	s.recoverPanic(j, func() {
		if s.decode(j); j.inv.Run == nil || !s.judge(ctx, j) || !s.holds(ctx, j) {
			return
		}
		j.result.Text = j.verdict.Why
		allowed = j.verdict.Action == permission.Allow
	})
	if !allowed {
		return s.resultOf(j)
	}
	s.recoverPanic(j, func() {
		if s.reportCall(j) && s.approve(ctx, j) {
			s.run(ctx, j)
		}
	})
	r := s.resultOf(j)
	if s.cfg.OnResult != nil {
		s.cfg.OnResult(r, j.result.Change)
	}
	return r
}
