package agent

import (
	"slices"
	"sync"

	"symbio/security/permission"
)

// register knows the living agents of a factory by their addresses.
type register struct {
	mu sync.Mutex
	of map[string]*life // guarded by mu
}

func (r *register) enter(l *life) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string]*life{}
	}
	r.of[l.address()] = l
}

func (r *register) leave(l *life) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, l.address())
}

func (r *register) find(address string) *life {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[address]
}

// serve notes for whom the agent works from now on: the agents of this node among those that asked, or had
// asked who asked. What it does is judged by their permissions, too, so that nobody has another do what they
// may not do themselves (security.md 7.3). What other nodes may ask for is for Config.Authorize to say.
// With nil it works for nobody.
func (l *life) serve(requesters []string) {
	var lives []*life
	for _, address := range requesters {
		r := l.factory.register.find(address)
		if r == nil || slices.Contains(lives, r) {
			continue
		}
		mine := false // its own permissions are part of the agent's already
		for p := l; p != nil; p = p.parent {
			mine = mine || p == r
		}
		if !mine {
			lives = append(lives, r)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.masters = lives
}

// chain is what every call of the agent is judged by: its parents' links, its own, and those of the agents
// that it works for now.
func (l *life) chain() permission.Chain {
	chain := l.links()
	l.mu.Lock()
	masters := l.masters
	l.mu.Unlock()
	for _, m := range masters {
		chain = append(chain, m.links()...)
	}
	return chain
}
