package tool

import (
	"context"
	"errors"
	"strings"

	"symbio/security/permission"
	"symbio/security/sandbox"
)

// checkSandbox makes the verdict v stricter if the sandbox cannot hold the call as the policy
// requires: a question to a person if some protection is missing, and a denial if there is none at
// all. It returns what is missing, nil if nothing is or if a person has accepted
// exactly that before.
func (s *Set) checkSandbox(ctx context.Context, j *job, v *permission.Verdict) *sandbox.Refusal {
	if j.inv.Holds == nil || v.Action == permission.Deny {
		return nil
	}
	err := j.inv.Holds(context.WithValue(ctx, currentKey{}, &current{set: s, job: j}))
	var lacking *sandbox.Refusal
	if !errors.As(err, &lacking) {
		return nil // the tool says what else is wrong
	}
	why := v.Why
	if lacking.Level == sandbox.None {
		*v = permission.Verdict{Action: permission.Deny, Stage: permission.StageSandbox, Source: "sandbox", Why: sentence(lacking.Error()),
			Plan: v.Plan}
		return nil
	}
	if s.lacks.has(j, lacking) {
		v.Why = strings.TrimSpace(why + " A person has accepted before what the sandbox lacks for exactly this call.")
		return lacking
	}
	asked := v.Action == permission.Ask
	v.Action, v.Stage, v.Rule, v.Source, v.Link = permission.Ask, permission.StageSandbox, "", "sandbox", ""
	v.Why = sentence(lacking.Lacking()) + " It runs like that only if a person accepts it."
	if lacking.Mend != "" {
		v.Why += " To mend it: " + lacking.Mend + "."
	}
	if asked {
		v.Why = why + " " + v.Why
	}
	return lacking
}

// applyDoubt turns an allowing verdict into a question if the tool itself asks for a person's
// decision (Invocation.Doubt).
func applyDoubt(j *job, v *permission.Verdict) {
	if j.inv.Doubt == nil || v.Action == permission.Deny {
		return
	}
	why := j.inv.Doubt()
	switch {
	case why == "":
	case v.Action == permission.Ask:
		v.Why = strings.TrimSpace(v.Why + " " + why)
	default:
		v.Action, v.Stage, v.Rule, v.Source, v.Link, v.Why = permission.Ask, permission.StageDefault, "", "tool", "", why
	}
}

// sentence returns text with a capital first letter and a full stop. text must not be empty.
func sentence(text string) string {
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}
