package tool

import (
	"context"
	"sync/atomic"

	"symbio/security/permission"
)

// Consent is a person's yes to a call that only asked for something. It serves one later call that does it: the person is not asked
// twice, and that call is judged and recorded as any other. Only a Set makes one; the zero Consent serves nothing.
type Consent struct {
	Decision Decision // as the person saw it
	by       string
	open     atomic.Bool // it has served no call
}

// serves reports whether the consent answers the question about a call with that verdict, and uses it up. It does not if a person would
// decide about it for another reason.
func (c *Consent) serves(v permission.Verdict) bool {
	w := c.Decision.Verdict
	return v.Stage == w.Stage && v.Rule == w.Rule && v.Source == w.Source && v.Box == w.Box && v.Why == w.Why && c.open.CompareAndSwap(true, false)
}

// question asks a person about a call, unless there is a Consent.
func (s *Set) question(ctx context.Context, j *job, d Decision) Answer {
	if j.inv.Consent != nil {
		ctx := context.WithValue(ctx, currentKey{}, &current{set: s, job: j})
		if c := j.inv.Consent(ctx, d); c != nil && c.serves(d.Verdict) {
			return Answer{Allow: true, By: c.by + ", just before"}
		}
	}
	answer := s.cfg.Ask(ctx, d)
	if answer.Allow && !answer.Advance && j.inv.OnConsent != nil {
		j.consent = &Consent{Decision: d, by: answer.By}
		j.consent.open.Store(true)
	}
	return answer
}
