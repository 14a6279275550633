package permission

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
)

// maxRemembered bounds a Memory. A person who answers once a second needs an hour to fill it;
// beyond it nothing more is remembered, and they are asked again.
const maxRemembered = 4096

// Memory is what a person answered with "always" in this session. An answer holds for exactly the
// same call, decoded, in the same directory (security.md D8, 8.1 and 8.9), and an allow lifts no deny
// but those of the policy under which it was given. The zero Memory is empty and ready; all methods
// may be called from many goroutines.
type Memory struct {
	mu sync.Mutex
	// answers has by call (key) and policy (Policy.scope) what was answered; guarded by mu. It is
	// nil until the first answer.
	answers map[string]map[string]Action // call -> policy -> answer; guarded by mu
	// count is the number of answers in all; guarded by mu.
	count int // guarded by mu
}

// Remember keeps an answer given under a policy. It does not keep Ask, a call that cannot be
// written down exactly, or an answer under a policy with NoMemory. When the Memory is full it
// keeps nothing more: the person is asked again, which is safe.
func (m *Memory) Remember(c Call, under Policy, answer Action) {
	k, ok := key(c)
	if !ok || answer == Ask || under.NoMemory {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.answers[k]
	if _, again := of[under.scope()]; !again {
		if m.count >= maxRemembered {
			return
		}
		m.count++
	}
	if m.answers == nil {
		m.answers = map[string]map[string]Action{}
	}
	if of == nil {
		of = map[string]Action{}
		m.answers[k] = of
	}
	of[under.scope()] = answer
}

// Forget drops all answers.
func (m *Memory) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers, m.count = nil, 0
}

// recall returns the answer for a call. here is whether it was given under this very policy:
// an allow does not lift what another policy denies, but a deny holds wherever it was given. A
// nil Memory remembers nothing.
func (m *Memory) recall(c Call, under Policy) (answer Action, here, found bool) {
	if m == nil || under.NoMemory {
		return Deny, false, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count == 0 {
		return Deny, false, false
	}
	k, ok := key(c)
	of := m.answers[k]
	if !ok || len(of) == 0 {
		return Deny, false, false
	}
	for _, a := range of {
		if a != Allow {
			return Deny, true, true
		}
	}
	_, here = of[under.scope()]
	return Allow, here, true
}

// key encodes a call so that two calls have the same key only if they are the same. json.Marshal
// sorts the keys of objects. ok is false for arguments that JSON cannot hold. Unlike Call.Key it
// follows no scripts: an answer in memory ends with the session.
func key(c Call) (string, bool) {
	args, err := json.Marshal(c.Args)
	if err != nil {
		return "", false
	}
	head, err := json.Marshal([]string{c.Tool, c.Dir})
	return string(head) + string(args), err == nil
}

// scope identifies what a policy denies, so that an allow remembered under one policy does not
// lift what another denies.
func (p Policy) scope() string {
	return strings.Join(sortedTexts(p.FinalDeny), "\n") + "\x00" + strings.Join(sortedTexts(p.Deny), "\n")
}

// sortedKeys returns the keys in order, so that texts made of a map are the same each time.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
