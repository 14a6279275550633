package agent

import "symbio/security/permission"

// narrowing is the policy by which a definition narrows what its agents may do; false when it says
// nothing. A definition that only denies leaves the rest to the other links of the chain.
func (d Definition) narrowing() (permission.Policy, bool) {
	c := d.Permissions
	if c.Preset == "" && c.Default == "" && len(c.Allow)+len(c.Deny)+len(c.FinalDeny)+len(c.Override) == 0 {
		return permission.Policy{}, false
	}
	if c.Preset == "" {
		c.Preset = "none" // what it does not allow is asked
		if c.Default == "" && len(c.Allow) == 0 {
			c.Preset = "permissive"
		}
	}
	policy, err := c.Policy()
	if err != nil {
		return permission.Policy{}, true // it was checked when the definition was read; else it denies
	}
	return policy, true
}
