package dashboard

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/node/proposal"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
	"symbio/skills/choice"
	"symbio/skills/trust"
)

// skillsPage returns the page of the node's skills.
func skillsPage() page {
	return page{path: "/skills", name: "skills", title: "Skills", nav: true, data: skillsData, actions: map[string]action{
		"skill-on": {do: func(ctx context.Context, v *view, form url.Values) (string, error) {
			return switchSkill(ctx, v, form, true)
		}},
		"skill-off": {do: func(ctx context.Context, v *view, form url.Values) (string, error) {
			return switchSkill(ctx, v, form, false)
		}},
	}}
}

// proposalPage returns the page that shows what a skill asks for, before a person trusts it.
func proposalPage() page {
	return page{path: "/skills/trust", name: "proposal", title: "Trust a skill", data: proposalData, actions: map[string]action{
		"skill-trust": {do: trustSkill},
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

// switchSkill switches the skill with the path of the form on or off, for all nodes of the user. This
// node takes it up at once.
func switchSkill(ctx context.Context, v *view, form url.Values, on bool) (string, error) {
	all, err := v.cfg.Client.Skills(ctx, &symbiov1.SkillsRequest{})
	if err != nil {
		return "", err
	}
	book, path := v.cfg.State.SkillsOff(), form.Get("path")
	s := choice.Switch[*symbiov1.Skill]{Book: book, All: all.GetSkills()}
	if len(s.Matching(path)) != 1 {
		return "", status.Errorf(codes.NotFound, "there is no skill %s", path)
	}
	if err := s.Set(path, on); err != nil {
		return "", err
	}
	if s.All, err = v.rescan(ctx); err != nil {
		return "", err
	}
	for _, now := range s.Matching(path) {
		if now.GetEnabled() != on {
			return "", status.Errorf(codes.FailedPrecondition, "the skill %s is still off: the configuration switches it off, or it is off by its name, with others; symbio skills enable says more", now.GetName())
		}
	}
	return fmt.Sprintf("The skill %s is %s.", form.Get("name"), map[bool]string{true: "on", false: "off"}[on]), nil
}

// rescan makes this node look at its skills again.
func (v *view) rescan(ctx context.Context) ([]*symbiov1.Skill, error) {
	all, err := v.cfg.Client.Skills(ctx, &symbiov1.SkillsRequest{Rescan: true})
	return all.GetSkills(), err
}

// proposalData returns the proposal of the skill with the path of the address.
func proposalData(ctx context.Context, v *view) (any, error) {
	return v.proposal(ctx, v.Request.URL.Query().Get("path"))
}

// proposal reads the skill with a path.
func (v *view) proposal(ctx context.Context, path string) (proposal.Proposal, error) {
	if !filepath.IsAbs(path) {
		return proposal.Proposal{}, status.Errorf(codes.InvalidArgument, "%q is not the path of a skill", path)
	}
	return proposal.Of(ctx, v.cfg.Skills(), v.cfg.State.Skills(), path)
}

// trustSkill records the trust in what the person was shown: the form has its hash. A fetched skill
// gets its rules only if the form says grants.
func trustSkill(ctx context.Context, v *view, form url.Values) (string, error) {
	p, err := v.proposal(ctx, form.Get("path"))
	if err != nil {
		return "", err
	}
	if form.Get("hash") != p.HashToTrust() {
		return "", status.Errorf(codes.PermissionDenied, "the skill %s was changed after it was shown: it is not trusted; look at it again", p.Name)
	}
	rules := p.Grants
	if p.Scope == skills.ScopePeer && form.Get("grants") == "" {
		rules = nil
	}
	if err := v.cfg.State.Skills().Trust(p.Skill, p.SHA256, rules, p.Origin); err != nil {
		return "", err
	}
	_, err = v.rescan(ctx)
	granted := "no rules"
	if len(rules) > 0 {
		granted = strings.Join(rules, ", ")
	}
	return fmt.Sprintf("The skill %s is trusted, with %s.", p.Name, granted), err
}
