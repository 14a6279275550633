package chat

import (
	"context"
	"strings"

	"symbio/agent/session"
	"symbio/internal/agent/session/sqlite"
	"symbio/internal/agent/session/undo"
	"symbio/internal/security/visible"
)

// askUndo shows what /undo puts back and asks; answerUndo does it after a yes. It works on the file of the
// sessions, on this machine. An error is shown, and the conversation goes on.
func askUndo(ctx context.Context, t *conversation, turn string) {
	number, err := undo.ParseTurn(strings.TrimSpace(turn))
	if err == nil {
		err = onPlan(ctx, t, number, func(p *undo.Plan) error {
			t.view.message(p.Text())
			t.view.note("Put them back? y = yes, anything else = no")
			t.confirm = func(p2 *undo.Plan) error {
				if p2.Text() != p.Text() {
					t.view.note("the files have changed since you were shown the difference; look again with /undo")
					return nil
				}
				done, err := p2.Apply()
				t.view.note(visible.Plural(done, "file") + " put back; your next message says so to the agent")
				if done > 0 {
					t.unsent = append(t.unsent, "[I put files back as they were, with /undo. Read them again before you edit them.]")
				}
				return err
			}
			t.undoTurn = number
			return nil
		})
	}
	if err != nil {
		t.view.problem(err.Error())
	}
}

// answerUndo handles the answer to the question of askUndo.
func answerUndo(ctx context.Context, t *conversation, answer string) {
	apply := t.confirm
	t.confirm = nil
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		t.view.note("nothing was put back")
	} else if err := onPlan(ctx, t, t.undoTurn, apply); err != nil {
		t.view.problem(err.Error())
	}
}

// onPlan calls do with the plan of an undo in a conversation's session.
func onPlan(ctx context.Context, t *conversation, turn int, do func(*undo.Plan) error) error {
	return t.env.Sessions().Open(ctx, t.session.id, func(s *sqlite.Store, i session.Info) error {
		p, err := undo.New(ctx, s, i.ID, turn)
		if err != nil {
			return err
		}
		return do(p)
	})
}
