package acpcmd

import (
	"context"
	"strings"
	"sync"

	acp "github.com/coder/acp-go-sdk"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// patchOffer are the changes that an agent of another node made in its copy of the directory, until a person has decided.
type patchOffer struct {
	mu sync.Mutex // guards the fields
	// latest are the changes; nil = there are none that can be made.
	latest *event.Patch
	// refused is the difference that a person did not want.
	refused string
	// result is the end of the turn, which waits for the decision; nil = none waits.
	result *event.Event
}

// patchID is the id of the changes in the editor, as a call of a tool.
const patchID = "changes"

// patched handles an event about changes: new ones, changes that were made, or why they are not.
func (t *talk) patched(e event.Event, f event.Patch) {
	t.patch.mu.Lock()
	defer t.patch.mu.Unlock()
	t.patch.latest = nil
	if t.patch.result != nil {
		t.decide(f.Applied, e.Why)
		return
	}
	lines := []string{}
	for _, file := range f.Files {
		if file.Conflict != "" {
			lines = append(lines, visible.Line(file.Path, 200)+": "+terminal.Printable(file.Conflict))
		}
	}
	if f.Left != "" {
		lines = append(lines, "These changes stay on the other node: "+terminal.Printable(f.Left))
	}
	content := t.view.diffContent(f.Diff)
	if len(lines) > 0 {
		content = append(content, textContent(strings.Join(lines, "\n"))...)
	}
	t.session.update(acp.StartToolCall(patchID, visible.Plural(len(f.Files), "file")+" changed on the other node", acp.WithStartKind(acp.ToolKindEdit),
		acp.WithStartStatus(acp.ToolCallStatusPending), acp.WithStartContent(content)))
	switch {
	case e.Why != "":
		t.decide(false, e.Why)
	case f.Diff != t.patch.refused:
		t.patch.latest = &f
	}
}

// offer asks the editor whether the changes are to be made, if there are some. Then the end of the turn waits for the answer, and the
// result is true.
func (t *talk) offer(ctx context.Context, result event.Event) bool {
	t.patch.mu.Lock()
	defer t.patch.mu.Unlock()
	f := t.patch.latest
	if f == nil {
		return false
	}
	t.patch.result = &result
	request := acp.RequestPermissionRequest{SessionId: t.session.id,
		ToolCall: acp.ToolCallUpdate{ToolCallId: patchID, Title: acp.Ptr("Make these changes in " + visible.Line(f.Dir, 200)),
			Kind: acp.Ptr(acp.ToolKindEdit), Content: t.view.diffContent(f.Diff)},
		Options: []acp.PermissionOption{
			{OptionId: onceOption, Kind: acp.PermissionOptionKindAllowOnce, Name: "Make them"},
			{OptionId: noOption, Kind: acp.PermissionOptionKindRejectOnce, Name: "Leave them"},
		}}
	t.questions.asking.Go(func() {
		reply, err := t.session.server.conn.RequestPermission(ctx, request)
		if err == nil && answerOf(reply).GetAllow() {
			t.tell(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Apply{Apply: &symbiov1.ApplyPatch{}}})
			return
		}
		t.patch.mu.Lock()
		defer t.patch.mu.Unlock()
		t.patch.refused = f.Diff
		t.decide(false, "nothing was changed here")
	})
	return true
}

// decide shows whether the changes were made, or why they were not, and ends the turn that waits for that. The caller holds mu.
func (t *talk) decide(made bool, why string) {
	with := []acp.ToolCallUpdateOpt{acp.WithUpdateStatus(acp.ToolCallStatusCompleted)}
	if !made {
		with = []acp.ToolCallUpdateOpt{acp.WithUpdateStatus(acp.ToolCallStatusFailed), acp.WithUpdateContent(textContent(terminal.Printable(why)))}
	}
	t.session.update(acp.UpdateToolCall(patchID, with...))
	if t.patch.result != nil {
		put(t.results, *t.patch.result)
		t.patch.result = nil
	}
}
