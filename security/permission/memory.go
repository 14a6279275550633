package permission

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
)

// maxRemembered bounds a Memory. A person who answers once a second needs half an hour to fill it;
// beyond it nothing more is remembered, and they are asked again.
const maxRemembered = 4096

// Memory is what a person answered with "always" in this session. An answer holds for exactly the
// same call, decoded, in the same directory, and an allow lifts no deny
// but the rules of the policy under which it was given. The zero Memory is empty and ready; all methods
// may be called from many goroutines.
type Memory struct {
	mu sync.Mutex
	// allowed has the calls (key) with the policy under which each was allowed (Policy.scope), denied those that
	// were denied under any; guarded by mu, and nil until the first answer.
	allowed map[[2]string]bool
	denied  map[string]bool
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
	switch {
	case len(m.allowed)+len(m.denied) >= maxRemembered:
	case answer == Allow:
		if m.allowed == nil {
			m.allowed = map[[2]string]bool{}
		}
		m.allowed[[2]string{k, ""}], m.allowed[[2]string{k, under.scope()}] = true, true
	default:
		if m.denied == nil {
			m.denied = map[string]bool{}
		}
		m.denied[k] = true
	}
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
	if len(m.allowed)+len(m.denied) == 0 {
		return Deny, false, false
	}
	switch k, ok := key(c); {
	case ok && m.denied[k]:
		return Deny, true, true
	case ok && m.allowed[[2]string{k, ""}]:
		return Allow, m.allowed[[2]string{k, under.scope()}], true
	}
	return Deny, false, false
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
