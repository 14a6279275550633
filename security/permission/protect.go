package permission

// protected returns the protected name that a call would write, or the place with keys or
// passwords that it would use, and a sentence on the risk; "" if none, and for tools that use no
// path. Reading a protected name is harmless, reading a key is not.
func (f *facts) protected() (name, risk string) {
	if f.subject.matter != matterPath {
		return "", ""
	}
	reads := f.subject.tree || f.call.Tool == "Read"
	for _, at := range f.locations() {
		if name := at.Protected(); name != "" && !reads {
			return name, "Other programs run " + name + " or obey it"
		}
		if name := f.locator.links.Secret(at); name != "" {
			return name, "Programs keep keys or passwords in " + name
		}
	}
	return "", ""
}
