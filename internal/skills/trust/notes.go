package trust

import "symbio/security/permission"

// Notes returns warnings for a person who is asked to trust a skill with these rules: rules that
// allow very much or nothing, and rules that run the skill's own files. A fetched skill needs no
// warning about its files, because the hash covers them.
func Notes(rules []string, fetched bool) (notes []string) {
	for _, text := range rules {
		r, err := permission.ParseGrant(text)
		if err != nil {
			if r, err = permission.ParseRule(text); err != nil {
				continue
			}
		}
		switch w := r.Warning(); {
		case r.RunsSkillFiles() && fetched:
		case r.RunsSkillFiles():
			notes = append(notes, text+": this runs the skill's own files, as they are then; the hash is of the SKILL.md alone")
		case w != "":
			notes = append(notes, text+": "+w)
		}
	}
	return notes
}
