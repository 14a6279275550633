package trust

import "symbio/security/permission"

// Notes are what a person should know before trusting a skill with these rules: those that allow much more, or
// nothing, and of a project's skill those that run its own files. Those of a fetched one its hash covers.
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
