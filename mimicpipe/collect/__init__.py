"""Source demos by hand: a scene that is steered from a web page on this machine (`python -m mimicpipe.tools.collect`).

    page (keys, gamepad) ──► Hub.put_input, Hub.ask ──► loop, env.fps times a second ──► Hub.publish ──► page
                             server's threads            Session: steer, step, record      state, frame

`hub` is all that the two kinds of threads share; simulator, renderer and file belong to the loop's.
"""
