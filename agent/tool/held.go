package tool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"symbio/security/permission"
	"symbio/security/sandbox"
)

// held makes a question of a verdict if less holds the call than should, and a denial where nothing does
// (security.md 3.7). It returns what is lacking.
func (s *Set) held(ctx context.Context, j *job, v *permission.Verdict) *sandbox.Refusal {
	if j.inv.Holds == nil || v.Action == permission.Deny {
		return nil
	}
	err := j.inv.Holds(ctx)
	var lacking *sandbox.Refusal
	if !errors.As(err, &lacking) {
		return nil // the tool says what else is wrong
	}
	asked := v.Action == permission.Ask
	why := v.Why
	v.Action, v.Stage, v.Rule, v.Source, v.Link = permission.Ask, permission.StageSandbox, "", "sandbox", ""
	if lacking.Level == sandbox.None {
		v.Action, v.Why = permission.Deny, sentence(lacking.Error())
		return nil
	}
	v.Why = fmt.Sprintf("The sandbox of this machine %s. It runs like that only if a person accepts it.", lacking.Lacking())
	if lacking.Mend != "" {
		v.Why += " To mend it: " + lacking.Mend + "."
	}
	if asked {
		v.Why = why + " " + v.Why
	}
	return lacking
}

func sentence(text string) string {
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

type lackingKey struct{}

// Accepted says that a person has seen exactly that something is lacking for the call that ctx was given to, and wants
// it to run all the same.
func Accepted(ctx context.Context, lacking *sandbox.Refusal) bool {
	seen, _ := ctx.Value(lackingKey{}).(*sandbox.Refusal)
	return seen != nil && lacking != nil && seen.Level == lacking.Level && slices.Equal(seen.Lacks, lacking.Lacks)
}
