package tool

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

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
		*v = permission.Verdict{Action: permission.Deny, Stage: permission.StageSandbox, Source: "sandbox", Why: sentence(lacking.Error()), Plan: v.Plan}
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

// maxAcceptedLacks limits the answers that acceptedLacks remembers. Beyond it a person is asked again.
const maxAcceptedLacks = 1000

// acceptedLacks remembers what a person has accepted for good that a sandbox lacks, by call. The zero
// value is usable. It is safe for concurrent use.
type acceptedLacks struct {
	mu   sync.Mutex
	keys map[string]bool // see lackKey; guarded by mu
}

// has reports whether a person has accepted the missing protection for this call.
func (a *acceptedLacks) has(j *job, lacking *sandbox.Refusal) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keys[j.lackKey(lacking)]
}

// add remembers that a person accepts the missing protection for this call.
func (a *acceptedLacks) add(j *job, lacking *sandbox.Refusal) {
	key := j.lackKey(lacking)
	if key == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keys == nil {
		a.keys = map[string]bool{}
	}
	if len(a.keys) < maxAcceptedLacks {
		a.keys[key] = true
	}
}

// lackKey identifies exactly this call with exactly this missing protection. It returns "" for
// arguments that cannot be encoded, which are therefore never remembered.
func (j *job) lackKey(lacking *sandbox.Refusal) string {
	args, err := json.Marshal(j.inv.Args)
	if err != nil {
		return ""
	}
	return strings.Join(append([]string{j.call.Name, string(args), lacking.Level.String()}, lacking.Lacks...), "\x00")
}

// Accepted says that a person has seen exactly that something is lacking for the call that ctx was
// given to, and wants it to run all the same.
func Accepted(ctx context.Context, lacking *sandbox.Refusal) bool {
	seen := currentOf(ctx).job.lacking
	return seen != nil && lacking != nil && seen.Level == lacking.Level && slices.Equal(seen.Lacks, lacking.Lacks)
}
