package agent

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"symbio/community"
	"symbio/security/permission"
)

// register knows the living agents of a factory by their addresses.
type register struct {
	mu  sync.Mutex
	of  map[string]*life             // guarded by mu
	ids map[community.MemberID]*life // guarded by mu
}

func (r *register) enter(l *life) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of, r.ids = map[string]*life{}, map[community.MemberID]*life{}
	}
	r.of[l.address()], r.ids[l.self.ID] = l, l
}

func (r *register) leave(l *life) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, l.address())
	delete(r.ids, l.self.ID)
}

func (r *register) find(address string) *life {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[address]
}

// serve notes for whom the agent works from now on: the agents of this node among those that asked, or had
// asked who asked. What it does is judged by their permissions, too, so that nobody has another do what they
// may not do themselves (security.md 7.3). What other nodes may ask for is for Config.Authorize to say; those of
// them who ask are held to guests, what their nodes say of them. With nil it works for nobody.
func (l *life) serve(requesters []string, guests permission.Chain) {
	lives, strangers := l.masterly(requesters), l.strangers(requesters)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.masters, l.strange, l.guests = lives, strangers, guests
}

// serveToo has the agent work for these as well, for as long as for those that it works for now.
func (l *life) serveToo(requesters []string, guests permission.Chain) {
	lives, strangers := l.masterly(requesters), l.strangers(requesters)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.masters, l.strange, l.guests = slices.Concat(l.masters, lives), slices.Concat(l.strange, strangers), slices.Concat(l.guests, guests)
}

// masterly are the agents of this node among those that ask, whose permissions are not the agent's own already.
func (l *life) masterly(requesters []string) (lives []*life) {
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
	return lives
}

// strangers names those of the requesters that are not of this node, as people know them, the nearest first: a
// node, or NODE/AGENT. All but the calling node is what that node says.
func (l *life) strangers(requesters []string) (names []string) {
	var members map[community.MemberID]community.Member
	name := func(id string) string {
		if members == nil {
			members = map[community.MemberID]community.Member{}
			for _, m := range l.factory.cfg.Community.Members() {
				members[m.ID] = m
			}
		}
		return cmp.Or(members[community.MemberID(id)].Name, id)
	}
	for i, address := range slices.Backward(requesters) {
		node, agent, isAgent := strings.Cut(address, "/")
		if node == string(l.self.Node) {
			continue
		}
		if isAgent {
			names = append(names, name(node)+"/"+name(agent))
		} else if !slices.ContainsFunc(requesters[i+1:], func(r string) bool { return strings.HasPrefix(r, address+"/") }) {
			names = append(names, name(node)) // itself, for none of its agents
		}
	}
	return names
}

// chain is what every call of the agent is judged by: its parents' links, its own, and those of the agents
// that it works for now. more is granted to all of these agents, to see what would come of it.
func (l *life) chain(more ...permission.Granted) permission.Chain {
	chain := l.links(more)
	l.mu.Lock()
	masters, guests := l.masters, l.guests
	l.mu.Unlock()
	for _, m := range masters {
		chain = append(chain, m.links(more)...)
	}
	return append(chain, guests...)
}

// held says what the agent is held to, and those that it works for. Agents of this node are known to each other, so
// that among them only what other nodes said is passed on.
func (l *life) held(other bool) ([]byte, error) {
	if other {
		return permission.WriteBehalf(l.chain())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return permission.WriteBehalf(l.guests)
}

// elsewhere marks a name that only another node vouches for.
const elsewhere = ", as another node says"

// guestsOf reads what other nodes say of those that a signal is on behalf of.
func guestsOf(s community.Signal) (permission.Chain, error) {
	chain, err := permission.ReadBehalf(s.OnBehalf)
	if err != nil {
		return nil, community.Explain(community.ErrInvalid, "the permissions on whose behalf it is: "+err.Error())
	}
	for i := range chain {
		// It may have come over an agent of this node, which has it from there.
		chain[i].Name = strings.TrimSuffix(chain[i].Name, elsewhere) + elsewhere
	}
	return chain, nil
}
