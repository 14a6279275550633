package cases

import (
	"fmt"
	"slices"

	"symbio/security/permission"
)

// permissions judge the call of a case: the agent's own, and all that restrict these.
type permissions struct {
	// Rules are the policy of the agent that makes the call.
	Rules rules `yaml:"rules"`
	// SessionMemory are answers that count as given before.
	SessionMemory []memory `yaml:"sessionMemory,omitempty"`
	// SkillRules are rules that an active skill asks for. SkillScope is where the skill comes from:
	// user (also for ""), bundled or project. The rules of a project's skill are not granted.
	SkillRules []string `yaml:"skillRules,omitempty"`
	SkillScope string   `yaml:"skillScope,omitempty"`
	// ParentRules is the policy of the agent's parent, OnBehalfOf that of the requester of its
	// task; nil means that there is none. The strictest verdict counts.
	ParentRules *rules `yaml:"parentRules,omitempty"`
	OnBehalfOf  *rules `yaml:"onBehalfOf,omitempty"`
}

// rules is a policy as cases write it (permission.Policy): nothing lifts FinalDeny, and Overrides
// lifts Deny for the calls that it names.
type rules struct {
	FinalDeny []string `yaml:"finalDeny,omitempty"`
	Deny      []string `yaml:"deny,omitempty"`
	Overrides []string `yaml:"overrides,omitempty"`
	Allow     []string `yaml:"allow,omitempty"`
	// Default is the verdict if no rule matches; "" means ask.
	Default string `yaml:"default,omitempty"`
}

// memory is an answer that a person has given earlier in the session.
type memory struct {
	// Decision is alwaysAllow or alwaysDeny; see answer for other spellings.
	Decision string         `yaml:"decision"`
	Tool     string         `yaml:"tool"`
	Args     map[string]any `yaml:"args,omitempty"`
	// Scope "outer" is an answer given under another policy than the case's.
	Scope string `yaml:"scope,omitempty"`
}

// check returns an error for permissions that cannot be read.
func (p permissions) check() error {
	if !slices.Contains([]string{"", "user", "project", "bundled"}, p.SkillScope) {
		return fmt.Errorf("skillScope %q: write user, project or bundled", p.SkillScope)
	}
	for _, m := range p.SessionMemory {
		if _, err := m.answer(); err != nil {
			return err
		}
	}
	for _, r := range []*rules{&p.Rules, p.ParentRules, p.OnBehalfOf} {
		if r == nil || r.Default == "" {
			continue
		}
		if _, err := permission.ParseAction(r.Default); err != nil {
			return fmt.Errorf("default: %w", err)
		}
	}
	return nil
}

// answer returns the decision as an action. It accepts the words of other implementations.
func (m memory) answer() (permission.Action, error) {
	switch m.Decision {
	case "alwaysAllow", "allow":
		return permission.Allow, nil
	case "alwaysDeny", "alwaysBlock", "block", "deny":
		return permission.Deny, nil
	}
	return permission.Deny, fmt.Errorf("sessionMemory: decision %q: write alwaysAllow or alwaysDeny", m.Decision)
}

// chain returns the permissions that judge the case's call: the agent's, then those of its parent
// and of the requester, each of which can only restrict further.
func (p permissions) chain(s *caseRun) (permission.Chain, error) {
	agent := permission.Link{Name: "agent", Policy: p.Rules.in(s).policy(), Memory: new(permission.Memory)}
	for _, m := range p.SessionMemory {
		args, err := s.expandAll(m.Args)
		if err != nil {
			return nil, fmt.Errorf("sessionMemory: %w", err)
		}
		// An answer counts only under the policy under which it was given; an empty policy stands
		// for another one.
		under := agent.Policy
		if m.Scope == "outer" {
			under = permission.Policy{}
		}
		answer, _ := m.answer() // Read has checked the word
		agent.Memory.Remember(permission.Call{Tool: m.Tool, Args: args, Dir: s.dir}, under, answer)
	}
	// Rules of a project's skill are granted only after a person has trusted it, which no case
	// does.
	if p.SkillScope != "project" {
		var granted []permission.Grant
		for _, text := range p.SkillRules {
			// A rule that cannot be parsed, or that no skill may grant, is left out.
			if r, err := permission.ParseGrant(s.expand(text)); err == nil {
				granted = append(granted, permission.Grant{Rule: r.WithSkillDir(s.work), Source: "skill:case"})
			}
		}
		agent.Granted = func() []permission.Grant { return granted }
	}
	chain := permission.Chain{agent}
	if p.ParentRules != nil {
		chain = append(chain, permission.Link{Name: "parent", Policy: p.ParentRules.in(s).policy()})
	}
	if p.OnBehalfOf != nil {
		chain = append(chain, permission.Link{Name: "requester", Policy: p.OnBehalfOf.in(s).policy()})
	}
	return chain, nil
}
