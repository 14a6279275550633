package guardrail

import "symbio/security/permission"

// Config is a guardrail as a person writes it. The zero Config changes nothing.
type Config struct {
	// Preset is one of package permission, such as read_only, that the lists add to; "" = none.
	Preset    string
	FinalDeny []permission.RuleText
	Deny      []permission.RuleText
	Override  []permission.RuleText
	Ask       []permission.RuleText
	Allow     []permission.RuleText
	// Default is allow, ask or deny, for calls that no rule of it speaks of. "" = the preset's,
	// without one nothing.
	Default string
}

// IsZero says that it changes nothing.
func (c Config) IsZero() bool {
	return c.Preset == "" && c.Default == "" && len(c.FinalDeny)+len(c.Deny)+len(c.Override)+len(c.Ask)+len(c.Allow) == 0
}

// Guardrail reads it. With an error, which comes from permission.Config, the Guardrail denies
// everything.
func (c Config) Guardrail() (Guardrail, error) {
	parts := []Part{ruleList("deny", c.Deny), ruleList("final_deny", c.FinalDeny), ruleList("override", c.Override), ruleList("allow", c.Allow), ruleList("ask", c.Ask)}
	if c.Preset != "" {
		parts = append(parts, Preset(c.Preset))
	}
	if c.Default != "" {
		parts = append(parts, func(g *Guardrail) error {
			a, err := permission.ParseAction(c.Default)
			if err != nil {
				return err
			}
			return Otherwise(a)(g)
		})
	}
	return New(parts...)
}

// Rules are what the guardrail says of calls, without its sandbox.
func (g Guardrail) Rules() permission.Guardrail { return g.rules }

// At is where a rule of a list (final_deny, deny, override, ask, allow) is written; "" = it is the
// preset's.
func (c Config) At(list, rule string) string {
	of := map[string][]permission.RuleText{"final_deny": c.FinalDeny, "deny": c.Deny, "override": c.Override, "ask": c.Ask, "allow": c.Allow}[list]
	for _, r := range of {
		if r.Rule == rule {
			return r.At
		}
	}
	return ""
}

// In is the configuration with the name of the file that it was read from, for At.
func (c Config) In(file string) Config {
	rest := permission.Config{Allow: c.Allow, Deny: c.Deny, FinalDeny: c.FinalDeny, Override: c.Override}.In(file)
	c.Allow, c.Deny, c.FinalDeny, c.Override = rest.Allow, rest.Deny, rest.FinalDeny, rest.Override
	c.Ask = permission.Config{Allow: c.Ask}.In(file).Allow
	return c
}
