package dashboard

import (
	"context"
	"net/url"
	"path/filepath"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/internal/agent/node/proposal"
	"symbio/internal/skills/choice"
	"symbio/internal/skills/trust"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
)

// skillsPage returns the page of the node's skills.
func skillsPage() page {
	return page{Path: "/skills", Name: "skills", Title: "Skills", Nav: true, Data: skillsData, Actions: map[string]action{
		"on":  {do: switchSkill(true), done: "The skill is on."},
		"off": {do: switchSkill(false), done: "The skill is off."},
	}}
}

// proposalPage returns the page that shows what a skill asks for, before a person trusts it.
func proposalPage() page {
	return page{Path: "/skills/{id}", Name: "proposal", Title: "Trust a skill", Data: proposalData, Actions: map[string]action{
		"trust": {do: trustSkill, done: "The skill is trusted."},
	}}
}

// skillRow is a skill of the list. Trust is "" if its scope needs none, or if it is not known.
type skillRow struct {
	*symbiov1.Skill
	Trust trust.State
}

// skillList is the data of the page.
type skillList struct {
	Rows     []skillRow
	Problems []*symbiov1.SkillProblem
}

// skillsData lists the skills, with the trust in those that need it.
func skillsData(ctx context.Context, v *view) (any, error) {
	reply, err := v.cfg.Client.Skills(ctx, &symbiov1.SkillsRequest{})
	if err != nil {
		return nil, err
	}
	l := skillList{Problems: reply.GetErrors()}
	for _, s := range reply.GetSkills() {
		l.Rows = append(l.Rows, skillRow{s, v.trustIn(s)})
	}
	return l, nil
}

// trustIn returns the trust in a skill of a project or of another node.
func (v *view) trustIn(s *symbiov1.Skill) trust.State {
	scope := skills.Scope(s.GetScope())
	if scope.Grants() {
		return ""
	}
	skill, _, hash, err := skills.LoadFull(filepath.Dir(s.GetPath()), v.cfg.Skills().Policy)
	if err != nil {
		return ""
	}
	skill.Scope = scope
	state, _ := v.cfg.State.Skills().State(skill, hash) // a record that cannot be read is no trust
	return state
}

// skill returns the skill with an id.
func (v *view) skill(ctx context.Context, id string) (*symbiov1.Skill, []*symbiov1.Skill, error) {
	reply, err := v.cfg.Client.Skills(ctx, &symbiov1.SkillsRequest{})
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(reply.GetSkills(), func(s *symbiov1.Skill) bool { return s.GetId() == id })
	if i < 0 {
		return nil, nil, status.Error(codes.NotFound, "there is no such skill any more")
	}
	return reply.GetSkills()[i], reply.GetSkills(), nil
}

// rescan makes this node look at its skills again. Other nodes of the user do when they are told to.
func (v *view) rescan(ctx context.Context) error {
	_, err := v.cfg.Client.Skills(ctx, &symbiov1.SkillsRequest{Rescan: true})
	return err
}

// switchSkill returns what switches the skill with the id of the form on or off, for all nodes of the
// user.
func switchSkill(on bool) func(context.Context, *view, url.Values) error {
	return func(ctx context.Context, v *view, form url.Values) error {
		s, all, err := v.skill(ctx, form.Get("id"))
		if err == nil {
			err = choice.Switch[*symbiov1.Skill]{Book: v.cfg.State.SkillsOff(), All: all}.Set(s.GetPath(), on)
		}
		if err == nil {
			err = v.rescan(ctx)
		}
		if err != nil {
			return err
		}
		if s, _, err = v.skill(ctx, s.GetId()); err == nil && on && !s.GetEnabled() {
			err = status.Errorf(codes.FailedPrecondition, "%s is still off: the configuration switches it off, or it is off by its name, with others; symbio skills enable says more", s.GetName())
		}
		return err
	}
}

// proposalData returns what the skill with the id of the path asks for.
func proposalData(ctx context.Context, v *view) (any, error) {
	s, _, err := v.skill(ctx, v.Request.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return proposal.Of(ctx, v.cfg.Skills(), v.cfg.State.Skills(), s.GetPath())
}

// trustSkill records the trust in what the person was shown: the form has its hash. A fetched skill
// gets its rules only if the form says grants.
func trustSkill(ctx context.Context, v *view, form url.Values) error {
	data, err := proposalData(ctx, v)
	if err != nil {
		return err
	}
	p := data.(proposal.Proposal)
	if form.Get("hash") != p.HashToTrust() {
		return status.Errorf(codes.PermissionDenied, "the skill %s was changed after it was shown: it is not trusted; look at it again", p.Name)
	}
	rules := p.Grants
	if p.Scope == skills.ScopePeer && form.Get("grants") == "" {
		rules = nil
	}
	if err := v.cfg.State.Skills().Trust(p.Skill, p.SHA256, rules, p.Origin, p.Files); err != nil {
		return err
	}
	return v.rescan(ctx)
}
