package tool

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"symbio/security/sandbox"
)

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
