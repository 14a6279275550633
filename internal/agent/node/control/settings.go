package control

import (
	"context"
	"fmt"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
)

// emitSettings emits the settings that are in force. refused is why they did not change; nil if they
// did.
func (d *conversationStream) emitSettings(ctx context.Context, refused error) {
	now, err := d.server.cfg.Agents.Settings(d.member.ID)
	e := event.Event{Type: event.TypeSettings,
		Part: event.Settings{Model: now.Model, Effort: now.Effort, Mode: string(now.Mode), Window: now.Window, Sandbox: now.Sandbox}}
	switch {
	case refused != nil:
		e.Why = refused.Error()
	case err != nil:
		return // the agent has ended; the result of each turn says so
	}
	d.emit(ctx, e)
}

// changeSettings changes the settings of the agent as the person says, and emits what is in force then.
func (d *conversationStream) changeSettings(ctx context.Context, to *symbiov1.ChangeSettings) {
	d.emitSettings(ctx, d.server.cfg.Agents.ChangeSettings(ctx, d.member.ID,
		agent.Settings{Model: to.GetModel(), Effort: to.GetEffort(), Mode: agent.Mode(to.GetMode())}))
}

// compact makes room in the model's context. The agent reports how; an error becomes a notice.
func (d *conversationStream) compact(ctx context.Context) {
	defer d.steering.Add(-1)
	if err := d.server.cfg.Agents.Compact(ctx, d.member.ID); err != nil {
		d.emit(ctx, event.Event{Type: event.TypeNotice, Text: "Not compacted: " + err.Error()})
	}
}

// clear begins a new session and emits it. Messages that wait belong to the session before, so there
// must be none.
func (d *conversationStream) clear(ctx context.Context) {
	d.mu.Lock()
	waiting := len(d.turns)
	d.mu.Unlock()
	var s session.Info
	err := fmt.Errorf("a message is being answered: %w", community.ErrBusy)
	if waiting == 0 {
		s, err = d.server.cfg.Agents.Clear(d.member.ID)
	}
	if err != nil {
		d.emit(ctx, event.Event{Type: event.TypeNotice, Text: "Not cleared: " + err.Error()})
		return
	}
	d.emit(ctx, event.Event{Type: event.TypeSession, Part: event.Session{ID: s.ID, State: string(session.Idle)}})
}

// imagesOf checks the pictures of a message, which may come from anywhere. The error wraps
// community.ErrInvalid and says which picture cannot be sent and why.
func imagesOf(pictures []*symbiov1.Picture) ([]llm.Image, error) {
	if len(pictures) > llm.MaxImages {
		return nil, fmt.Errorf("%w: %d pictures; at most %d belong to a message", community.ErrInvalid, len(pictures), llm.MaxImages)
	}
	var images []llm.Image
	size := 0
	for n, p := range pictures {
		i, err := llm.NewImage(p.GetData())
		if err == nil && p.GetType() != "" && p.GetType() != i.Type {
			err = fmt.Errorf("an image declared as %.40q has the type %s", p.GetType(), i.Type)
		}
		if size += len(i.Data); err == nil && size > llm.MaxImageBytes {
			err = fmt.Errorf("the pictures have more than %d MiB together", llm.MaxImageBytes>>20)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: picture %d: %w", community.ErrInvalid, n+1, err)
		}
		images = append(images, i)
	}
	return images, nil
}
