// Package proposal reads a skill that a person may trust: the rules that it asks for, those that it
// cannot get, and whether it is trusted already. A proposal grants nothing: the Keeper of
// internal/skills/trust records the decision of the person.
package proposal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/tool/builtin"
	"symbio/internal/security/visible"
	"symbio/internal/skills/share"
	"symbio/internal/skills/trust"
	"symbio/skills"
)

// Proposal describes a skill to a person who may trust it. The names in JSON are a contract with
// scripts.
type Proposal struct {
	Name        string       `json:"name"`
	Description string       `json:"description"`
	Scope       skills.Scope `json:"scope"`
	Path        string       `json:"path"`
	// SHA256 is the hash of the SKILL.md, in hexadecimal.
	SHA256 string `json:"sha256"`
	// Hash is the hash of all files of a fetched skill; "" = the skill was not fetched.
	Hash string `json:"hash,omitempty"`
	// Node and NodeName are the id and the name of the node that it was fetched from.
	Node     string      `json:"node,omitempty"`
	NodeName string      `json:"node_name,omitempty"`
	Trust    trust.State `json:"trust"`
	// Grants are the rules that the skill asks for and that a person may grant.
	Grants []string `json:"grants"`
	// Refused are the rules that the policy withholds, with the reasons.
	Refused []skills.WithheldRule `json:"refused"`
	// Notes are warnings about the grants, from skills.GrantNotes.
	Notes []string `json:"notes"`
	// Files are the files of the skill, with the texts of the SKILL.md and the scripts.
	Files []trust.Content `json:"files"`
	// Changes is the unified difference of these texts to those that a person last trusted; "" = there is none, or it is not
	// known, which Notes say. Since is when that was; the zero Time = never.
	Changes string    `json:"changes,omitempty"`
	Since   time.Time `json:"since,omitzero"`

	Skill  skills.Skill `json:"-"`
	Origin share.Origin `json:"-"`
	// BadBook is the error of reading the records of trust as a whole; nil = they were read.
	BadBook error `json:"-"`
}

// HashToTrust returns the hash that a person compares: for a fetched skill the hash of all its
// files, else its SKILL.md's.
func (p Proposal) HashToTrust() string {
	if p.Hash != "" {
		return p.Hash
	}
	return p.SHA256
}

// Of reads the skill that arg names: a name, an absolute path or the hash of a fetched skill. All
// that is shown and later recorded comes from this one reading, so that the file cannot change in
// between. The error has the code NotFound, or InvalidArgument if the scope of the skill grants its
// rules without trust.
func Of(ctx context.Context, cfg skills.Config, keeper trust.Keeper, arg string) (Proposal, error) {
	var p Proposal
	dir, scope := "", skills.ScopePeer
	if share.ValidHash(arg) {
		o, err := keeper.Store.Find(arg)
		if err != nil {
			return p, status.Error(codes.NotFound, err.Error())
		}
		// A stored skill that was changed is never shown: the person would trust other files than
		// the hash says.
		if err := keeper.Store.Verify(arg); err != nil {
			return p, err
		}
		p.Origin, dir = o, keeper.Store.Dir(o.Hash, o.Name)
	} else {
		catalog, err := skills.Scan(ctx, cfg)
		if err != nil {
			return p, err
		}
		found, err := catalog.Find(arg)
		if errors.Is(err, skills.ErrNotFound) {
			return p, status.Error(codes.NotFound, fmt.Sprintf("%v; `symbio skills list` shows the skills here, `symbio skills fetch` those of other nodes", err))
		}
		if err != nil {
			return p, err
		}
		if found.Scope.Grants() {
			return p, status.Error(codes.InvalidArgument, fmt.Sprintf("%s is of scope %s: it grants what it asks for without being trusted", visible.Line(found.Name, 0), found.Scope))
		}
		dir, scope = found.Dir, found.Scope
		if scope == skills.ScopePeer {
			// The store keeps a skill in HASH/NAME, so the parent directory is the hash.
			if p.Origin, err = keeper.Store.Find(filepath.Base(filepath.Dir(dir))); err != nil {
				return p, err
			}
		}
	}
	skill, _, hash, err := skills.LoadFull(dir, cfg.Policy)
	skill.Scope = scope
	if err != nil {
		return p, err
	}
	p.Skill, p.Name, p.Description, p.Scope, p.Path, p.SHA256 = skill, skill.Name, skill.Description, scope, skill.Path, hash
	p.Hash, p.Node, p.NodeName = p.Origin.Hash, p.Origin.Node, p.Origin.NodeName
	p.Grants, p.Refused = []string{}, []skills.WithheldRule{}
	for _, r := range skill.Manifest.Grants {
		p.Grants = append(p.Grants, r.String())
	}
	for _, r := range skill.Refused {
		p.Refused = append(p.Refused, skills.WithheldRule(r))
	}
	p.Notes = append([]string{}, skills.GrantNotes(p.Grants, p.Hash != "")...)
	p.Trust, p.BadBook = keeper.State(skill, hash)
	return p, p.compare(keeper)
}

// compare sets the files of the skill and what changed in them.
func (p *Proposal) compare(keeper trust.Keeper) (err error) {
	more := false
	if p.Files, more, err = trust.Contents(p.Skill); err != nil {
		return err
	}
	if p.Files[0].SHA256 != p.SHA256 {
		return status.Error(codes.Aborted, fmt.Sprintf("%s has changed while it was read; try again", p.Path))
	}
	if more {
		p.Notes = append(p.Notes, "it has more files than are shown; look at them in "+p.Skill.Dir)
	}
	last, ok := keeper.Previous(p.Skill, p.Origin)
	switch {
	case !ok:
		return nil
	case last.Texts == nil:
		p.Notes = append(p.Notes, "what has changed since it was trusted is not known: its texts were not kept then")
		return nil
	}
	p.Since = last.Time
	now := map[string]string{}
	for _, f := range p.Files {
		if now[f.Path] = f.Text; f.Text != "" && last.Texts[f.Path] == "" {
			p.Changes += builtin.Unified("/dev/null", f.Path, nil, []byte(f.Text))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(last.Texts)) {
		if was := last.Texts[path]; was != now[path] {
			p.Changes += builtin.Unified(path, path, []byte(was), []byte(now[path]))
		}
	}
	return nil
}
