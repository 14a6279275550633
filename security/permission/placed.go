package permission

// Placed is a rule of a policy, with the list that it stands in and where that is.
type Placed struct {
	List string // final_deny, override, deny or allow
	Rule Rule
	At   string // FILE:LINE:COLUMN, LINE:COLUMN or "preset NAME"; "" = not known
}

// Rules are all rules of the policy, in the order in which their lists are looked at.
func (p Policy) Rules() (all []Placed) {
	for _, list := range []struct {
		name  string
		rules []Rule
	}{{"final_deny", p.FinalDeny}, {"override", p.Override}, {"deny", p.Deny}, {"allow", p.Allow}} {
		for _, r := range list.rules {
			all = append(all, Placed{list.name, r, p.at[list.name+" "+r.text]})
		}
	}
	return all
}
