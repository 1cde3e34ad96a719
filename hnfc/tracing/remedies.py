def add_remedies(*a): pass
