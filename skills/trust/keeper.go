package trust

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"symbio/security/private"
	"symbio/skills"
	"symbio/skills/share"
)

// Keeper answers a registry (skills.Trust) from a book, and about the skills of other nodes from a store.
type Keeper struct {
	Book  Book
	Store share.Store
}

// State is what is known of the trust in a skill.
type State string

// The states.
const (
	Grants   State = "grants"   // its scope grants without a person's leave
	Trusted  State = "trusted"  // a person trusts this very SKILL.md
	Changed  State = "changed"  // a person trusted an earlier one in this place
	Proposal State = "proposal" // nobody has
)

// Trusted implements skills.Trust. A skill of another node is read whole, and has to be what was fetched.
func (k Keeper) Trusted(s skills.Skill, hash string) ([]string, bool, error) {
	r, ok, err := k.Book.Find(s.Dir, hash)
	if err != nil || !ok {
		return nil, false, err
	}
	if (s.Scope == skills.ScopePeer) != (r.Tree != "") {
		return nil, false, fmt.Errorf("%w: it is about a skill of another scope than %s", private.ErrRecord, s.Scope)
	}
	if r.Tree != "" {
		if err := k.intact(r); err != nil {
			return nil, false, err
		}
	}
	return r.Rules, true, nil
}

// intact says whether the skill of a record is where the store has it, and is what was fetched.
func (k Keeper) intact(r Record) error {
	if k.Store.Dir(r.Tree, r.Name) != r.Dir {
		return fmt.Errorf("%w: %s is not where the skill %s is stored", private.ErrRecord, r.Dir, r.Tree)
	}
	return k.Store.Verify(r.Tree)
}

// Fetched implements skills.Trust: the stored skills that a person trusts. What cannot be read is not trusted.
func (k Keeper) Fetched() []skills.Root {
	records, _ := k.Book.Records()
	var roots []skills.Root
	for _, r := range records {
		if r.Tree != "" && k.Store.Dir(r.Tree, r.Name) == r.Dir {
			roots = append(roots, skills.Root{Path: filepath.Dir(r.Dir), Scope: skills.ScopePeer})
		}
	}
	return roots
}

// State says what is known of the trust in the skill whose SKILL.md has that hash. Beside an error, which
// says why something cannot be known, stands the state that counts.
func (k Keeper) State(s skills.Skill, hash string) (State, error) {
	if s.Scope.Grants() {
		return Grants, nil
	}
	_, ok, err := k.Trusted(s, hash)
	if ok {
		return Trusted, err
	}
	records, listErr := k.Book.Records()
	for _, r := range records {
		if r.Dir == s.Dir && r.Hash != hash {
			return Changed, errors.Join(err, listErr)
		}
	}
	return Proposal, errors.Join(err, listErr)
}

// Trust keeps that a person trusts the skill of an activation, which they were shown, with these of its rules.
// Of a skill of another node from is where it came from.
func (k Keeper) Trust(s skills.Skill, hash string, rules []string, from share.Origin) error {
	if s.Scope.Grants() {
		return fmt.Errorf("trust %s: a skill of scope %s grants without being trusted", s.Name, s.Scope)
	}
	r := Record{Dir: s.Dir, Hash: hash, Name: s.Name, Tree: from.Hash, Node: from.Node, Rules: rules, Time: time.Now().UTC().Truncate(time.Second)}
	if s.Scope == skills.ScopePeer {
		if err := k.intact(r); err != nil {
			return fmt.Errorf("trust %s: %w", s.Name, err)
		}
	}
	return k.Book.Put(r)
}
