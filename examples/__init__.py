"""Parts of one's own, one of each kind: a module, a YAML in conf/, and a test in tests/examples/.

python run.py --config-dir examples/conf allowed_targets=[examples] task=place pool=scripted
"""
