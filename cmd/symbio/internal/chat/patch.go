package chat

import (
	"errors"
	"os"
	"strings"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// patchOffer are the changes that an agent of another node made in its copy of the person's files. They are offered when the
// conversation is about to end: shown, and made with a yes. It is for one goroutine.
type patchOffer struct {
	// latest are the changes; nil = there are none, or the person has decided. refused says why they cannot be made; "" = they can.
	latest  *event.Patch
	refused string
	// asked is true while the person is asked, sent while the node makes the changes.
	asked, sent bool
}

// receive takes up an event: an offer, or that one was applied. The error says that it was not.
func (p *patchOffer) receive(e event.Event, v *view) (err error) {
	of, sent := event.PartOf[event.Patch](e), p.sent
	p.latest, p.sent = nil, false
	switch {
	case sent && !of.Applied:
		err = errors.New("the changes were not made: " + terminal.Printable(e.Why))
	case sent:
		v.note(visible.Plural(len(of.Files), "file") + " changed in " + terminal.Printable(of.Dir))
	case len(of.Files) == 0:
		v.problem(terminal.Printable(e.Why))
	default:
		p.latest, p.refused = &of, e.Why
	}
	return err
}

// settle deals with the changes when the conversation is about to end, as the options say: it writes them to a file, or asks the person,
// if canAsk is true. It returns whether the node is to make them. The error says why they are not made.
func (p *patchOffer) settle(o Options, v *view, canAsk bool) (apply bool, err error) {
	of := p.latest
	if of == nil || p.asked || p.sent {
		return false, nil
	}
	dir := terminal.Printable(of.Dir)
	if o.PatchFile != "" {
		p.latest = nil
		v.note("the changes are in " + o.PatchFile + "; to make them: patch -p0 -d " + dir + " < " + o.PatchFile)
		return false, os.WriteFile(o.PatchFile, []byte(of.Diff), 0o600)
	}
	v.message(terminal.PrintableLines(of.Diff))
	for _, f := range of.Files {
		if f.Conflict != "" {
			v.problem(visible.Line(f.Path, 200) + ": " + terminal.Printable(f.Conflict))
		}
	}
	if of.Left != "" {
		v.note("these changes stay on the other node: " + terminal.Printable(of.Left))
	}
	switch {
	case p.refused != "":
		p.latest, err = nil, errors.New(terminal.Printable(p.refused))
	case o.Apply:
		return true, nil
	case !canAsk:
		p.latest, err = nil, errors.New("the changes were not made: the input has ended")
	default:
		p.asked = true
		v.note("Make these changes? [y/N]  In " + dir)
	}
	return false, err
}

// answer takes the answer to the question of settle. It returns whether the node is to make the changes.
func (p *patchOffer) answer(text string, v *view) (apply bool) {
	p.asked = false
	if text = strings.ToLower(strings.TrimSpace(text)); text == "y" || text == "yes" {
		return true
	}
	p.latest = nil
	v.note("nothing was changed")
	return false
}

// settlePatch deals with the changes of an agent of another node before the conversation ends. answer is the person's, if it was asked.
// It returns whether the conversation has to go on for them.
func (t *conversation) settlePatch(answer *string) bool {
	p := &t.shutdown.patch
	var apply bool
	var err error
	if answer != nil {
		apply = p.answer(*answer, t.view)
	} else {
		apply, err = p.settle(t.options, t.view, !t.input.ended || t.view.term != nil)
	}
	if apply {
		p.latest, p.sent = nil, true
		err = t.link.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Apply{Apply: &symbiov1.ApplyPatch{}}})
	}
	if err != nil {
		t.shutdown.turnErr = err
	}
	return p.asked || p.sent
}
