package chat

import (
	"context"
	"strings"

	"symbio/agent/session"
	"symbio/internal/agent/session/sqlite"
	"symbio/internal/agent/session/undo"
	"symbio/internal/security/visible"
)

// undoQuestion is the question of /undo to the person. It works on the file of the sessions, on this machine.
// An error is shown, and the conversation goes on.
type undoQuestion struct {
	view   *view
	outbox *outbox
	// apply does what was shown, after a yes; nil = no question waits. turn is its exchange.
	apply func(*undo.Plan) error
	turn  int
}

// ask shows what /undo puts back in a session and asks; answer does it after a yes.
func (u *undoQuestion) ask(ctx context.Context, id, turn string) {
	number, err := undo.ParseTurn(strings.TrimSpace(turn))
	if err == nil {
		err = u.onPlan(ctx, id, number, func(p *undo.Plan) error {
			u.view.message(p.Text())
			u.view.note("Put them back? y = yes, anything else = no")
			u.turn, u.apply = number, func(p2 *undo.Plan) error {
				if p2.Text() != p.Text() {
					u.view.note("the files have changed since you were shown the difference; look again with /undo")
					return nil
				}
				done, err := p2.Apply()
				u.view.note(visible.Plural(done, "file") + " put back; your next message says so to the agent")
				if done > 0 {
					u.outbox.unsent = append(u.outbox.unsent, "[I put files back as they were, with /undo. Read them again before you edit them.]")
				}
				return err
			}
			return nil
		})
	}
	if err != nil {
		u.view.problem(err.Error())
	}
}

// answer handles the answer to the question of ask.
func (u *undoQuestion) answer(ctx context.Context, id, answer string) {
	apply := u.apply
	u.apply = nil
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		u.view.note("nothing was put back")
	} else if err := u.onPlan(ctx, id, u.turn, apply); err != nil {
		u.view.problem(err.Error())
	}
}

// onPlan calls do with the plan of an undo in a session.
func (u *undoQuestion) onPlan(ctx context.Context, id string, turn int, do func(*undo.Plan) error) error {
	return u.view.env.Sessions().Open(ctx, id, func(s *sqlite.Store, i session.Info) error {
		p, err := undo.New(ctx, s, i.ID, turn)
		if err != nil {
			return err
		}
		return do(p)
	})
}
