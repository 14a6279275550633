package trust

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"symbio/internal/security/private"
	"symbio/internal/skills/share"
	"symbio/skills"
)

// Keeper implements skills.Trust with a book of records and the store of fetched skills.
type Keeper struct {
	Book  Book
	Store share.Store
}

// State is the state of the trust in one skill.
type State string

// The states.
const (
	// Grants: the scope of the skill needs no trust.
	Grants State = "grants"
	// Trusted: a person trusts the skill with exactly this SKILL.md.
	Trusted State = "trusted"
	// Changed: a person trusted another SKILL.md in this directory.
	Changed State = "changed"
	// Proposal: no person trusts the skill.
	Proposal State = "proposal"
)

// Trusted implements skills.Trust. It reads a skill of another node completely, because the record
// covers all its files.
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

// intact returns an error unless the skill of a record lies where the store keeps it and is
// unchanged.
func (k Keeper) intact(r Record) error {
	if k.Store.Dir(r.Tree, r.Name) != r.Dir {
		return fmt.Errorf("%w: %s is not where the skill %s is stored", private.ErrRecord, r.Dir, r.Tree)
	}
	return k.Store.Verify(r.Tree)
}

// Fetched implements skills.Trust. A record that cannot be read is no trust, so its error does not
// matter here.
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

// State returns the state of the trust in the skill whose SKILL.md has that hash. With an error the
// state is the one that counts, and the error says what could not be read.
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

// Trust records that a person trusts a skill with these of its rules. The person must have seen the
// SKILL.md with that hash. from is the origin of a skill of another node. shown are the files that the person was shown, for the
// difference to the next version; nil = those that are there now.
func (k Keeper) Trust(s skills.Skill, hash string, rules []string, from share.Origin, shown []Content) error {
	if s.Scope.Grants() {
		return fmt.Errorf("trust %s: a skill of scope %s grants without being trusted", s.Name, s.Scope)
	}
	if shown == nil {
		shown, _, _ = Contents(s) // without them, the next difference is not known
	}
	r := Record{Dir: s.Dir, Hash: hash, Name: s.Name, Tree: from.Hash, Node: from.Node, Rules: rules,
		Time: time.Now().UTC().Truncate(time.Microsecond), Texts: texts(shown)}
	if s.Scope == skills.ScopePeer {
		if err := k.intact(r); err != nil {
			return fmt.Errorf("trust %s: %w", s.Name, err)
		}
	}
	return k.Book.Put(r)
}

// Forget removes a stored skill of another node and every trust in it: trust in a hash that is gone
// would hold again if the same skill were fetched later. share.ErrNotStored: there is none.
func (k Keeper) Forget(tree string) error {
	if err := k.Store.Remove(tree); err != nil {
		return err
	}
	records, err := k.Book.Records()
	for _, r := range records {
		// One skill can have several records: each is for one SKILL.md in one directory.
		if r.Tree == tree {
			err = errors.Join(err, k.Book.Remove(r.Dir, r.Hash))
		}
	}
	return err
}
